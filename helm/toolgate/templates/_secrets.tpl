{{/* The settings that are secrets, each a regular expression of its path below config; URLs are looked at below. */}}
{{- define "toolgate.secretPaths" -}}
- auth\.jwt\[\d+\]\.secret
- auth\.jwt\[\d+\]\.jwks_auth\.(bearer|header\.value)
- authorize\.auth\.(bearer|header\.value)
- backends\.[^.]+\.(auth|document_auth)\.bearer
- backends\.[^.]+\.(auth|document_auth)\.basic\.password
- backends\.[^.]+\.(auth|document_auth)\.header\.value
- backends\.[^.]+\.auth\.api_key(\.value)?
- backends\.[^.]+\.auth\.jwt\.secret
- backends\.[^.]+\.auth\.oauth\.client_secret
- backends\.[^.]+\.headers\..+
- backends\.[^.]+\.auth\.schemes\..+\.(bearer|basic\.password|header\.value|api_key\.value|jwt\.secret|oauth\.client_secret)
- console\.login\.client_secret
- metrics\.token
- routes\[\d+\]\.secrets\..+
- state\.keys\[\d+\]
- state\.sentinel_password
- telemetry\.headers\..+
{{- end }}

{{/* Refuses secrets that are written out in the value at a path, which would lie in a ConfigMap in plain text. */}}
{{- define "toolgate.refuseSecrets" -}}
{{- if kindIs "map" .value }}
{{- range $key, $value := .value }}
{{- include "toolgate.refuseSecrets" (dict "secrets" $.secrets "path" (append $.path (printf ".%s" $key)) "value" $value) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $index, $value := .value }}
{{- include "toolgate.refuseSecrets" (dict "secrets" $.secrets "path" (append $.path (printf "[%d]" $index)) "value" $value) }}
{{- end }}
{{- else if kindIs "string" .value }}
{{- $path := join "" .path | trimPrefix "." }}
{{- $refers := regexMatch `(^|[^$])([$][$])*[$][{](env|file):` .value }}
{{- $url := regexReplaceAll `[^&=:@/]*[$][{](env|file):[^}]*[}][^&=:@/?]*` .value "" }}
{{- $hasPassword := regexMatch `://[^/[:space:]]*:[^/@[:space:]]+@` $url }}
{{- $hasKey := regexMatch `(?i)^https?://.*[?&]((api|access|auth|subscription)?[_-]?(key|token)|(client[_-]?)?secret|password|sig|signature)=[^&]` $url }}
{{- if or (and (regexMatch .secrets $path) (not $refers)) $hasPassword $hasKey }}
{{- fail (printf "config.%s holds a secret in plain text, which would lie in a ConfigMap. Write ${env:NAME} or ${file:/path} in its place, and have env, envFrom or volumes put it there." $path) }}
{{- end }}
{{- end }}
{{- end }}
