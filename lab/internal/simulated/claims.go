package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// VersionClaim is the field that the simulated updater really changes: the Kubernetes version of a Machine.
var VersionClaim = cover.Pointer{Part: cover.PartMachine, Path: "/spec/version"}

// claimParts are the words for the parts in a claim.
var claimParts = map[string]cover.Part{
	"machine": cover.PartMachine, "infrastructure": cover.PartInfrastructure, "bootstrap": cover.PartBootstrap,
}

// ParseClaim parses a claim, as in bootstrap:/spec/files: one of machine, infrastructure and bootstrap, and a JSON pointer
// below /spec that goes through objects only.
func ParseClaim(s string) (cover.Pointer, error) {
	word, path, found := strings.Cut(s, ":")
	part, known := claimParts[word]
	if !found || !known {
		return cover.Pointer{}, fmt.Errorf("the claim %q is not of the form PART:/spec/FIELD with machine, infrastructure or bootstrap as PART", s)
	}
	claim := cover.Pointer{Part: part, Path: path}
	if _, err := updaters.Fields(claim.Path, cover.Machine); err != nil {
		return cover.Pointer{}, fmt.Errorf("the claim %q: %w", s, err)
	}
	return claim, nil
}

// digestOf identifies what the desired objects say about the claims, the version left out: that one is looked up on the
// node. It is empty where there are no such claims.
func digestOf(claims []cover.Pointer, desired cover.Objects) (string, error) {
	objects := map[cover.Part]json.RawMessage{
		cover.PartMachine: desired.Machine, cover.PartInfrastructure: desired.Infrastructure, cover.PartBootstrap: desired.Bootstrap,
	}
	hash, claimed := sha256.New(), false
	for _, claim := range claims {
		if claim == VersionClaim {
			continue
		}
		claimed = true
		object, err := updaters.DecodeObject(objects[claim.Part])
		if err != nil {
			return "", fmt.Errorf("the desired %s: %w", claim.Part, err)
		}
		fields, err := updaters.Fields(claim.Path, cover.Machine)
		if err != nil {
			return "", err
		}
		value, found := updaters.LookUp(object, fields)
		encoded, err := json.Marshal([]any{claim.Part, claim.Path, found, value})
		if err != nil {
			return "", fmt.Errorf("the desired %s: %w", claim.Part, err)
		}
		hash.Write(encoded)
	}
	if !claimed {
		return "", nil
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}

// sortedClaims gives the claims without repetitions, in a fixed order.
func sortedClaims(claims []cover.Pointer) []cover.Pointer {
	sorted := slices.Clone(claims)
	slices.SortFunc(sorted, func(a, b cover.Pointer) int {
		return strings.Compare(string(a.Part)+"\x00"+a.Path, string(b.Part)+"\x00"+b.Path)
	})
	return slices.Compact(sorted)
}
