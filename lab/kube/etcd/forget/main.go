// Command forget removes keys from the database of an etcd member that does not run, as a faulty
// disk could. Neither this member nor the others notice when it starts again, unless they compare
// themselves.
//
//	forget DATABASE PREFIX
package main

import (
	"bytes"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: forget DATABASE PREFIX")
		os.Exit(2)
	}
	forgotten, err := forget(os.Args[1], []byte(os.Args[2]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "forget:", err)
		os.Exit(1)
	}
	fmt.Println(forgotten)
}

// forget returns the number of revisions that it removed.
func forget(path string, prefix []byte) (int, error) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return 0, fmt.Errorf("opening the database: %w", err)
	}
	forgotten := 0
	err = db.Update(func(tx *bbolt.Tx) error {
		// etcd stores each revision of a key here; the value contains the key.
		revisions := tx.Bucket([]byte("key"))
		if revisions == nil {
			return fmt.Errorf("%s is no database of etcd", path)
		}
		cursor := revisions.Cursor()
		for revision, value := cursor.First(); revision != nil; revision, value = cursor.Next() {
			if !bytes.Contains(value, prefix) {
				continue
			}
			forgotten++
			if err := cursor.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return forgotten, db.Close()
}
