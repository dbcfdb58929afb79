{{/*
A file of the kustomization, in the namespace of the release: (list . "base/role.yaml").
Names are fixed: webhook configurations are called in the order of their names, and one installation
serves a cluster.
*/}}
{{- define "muster.file" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (printf "files/%s" (index . 1)) | replace "muster-system" $root.Release.Namespace -}}
{{- end -}}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
{{- end -}}

{{- define "muster.image" -}}
{{- with .Values.image -}}
{{- with .registry }}{{ . }}/{{ end -}}
{{- .repository -}}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* A port by its name: (list . "webhook"). */}}
{{- define "muster.port" -}}
{{- $values := (index . 0).Values -}}
{{- $name := index . 1 -}}
{{- $usual := index (dict "webhook" 8443 "barrier" 8444 "admin" 8080) $name -}}
{{- index $values.ports $name | default (ternary (add 10000 $usual) $usual $values.hostNetwork) -}}
{{- end -}}

{{/* What every container of Muster's may do. */}}
{{- define "muster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The user is the image's own, or the one that OpenShift gives the namespace. */}}
{{- define "muster.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}
