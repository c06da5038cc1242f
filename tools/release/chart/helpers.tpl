{{- define "windlass.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.tag }}:{{ $image.tag }}{{ else if not $image.digest }}:{{ .Chart.AppVersion }}@<< .Digest >>{{ end }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}
