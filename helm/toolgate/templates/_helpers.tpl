{{- define "toolgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 54 characters: -metrics is appended, and names of Services end at 63. */}}
{{- define "toolgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- $name := include "toolgate.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "toolgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "toolgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "toolgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "toolgate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "toolgate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Whether pods share what they remember, which takes a Redis and keys that all of them have: "true" or nothing. */}}
{{- define "toolgate.shared" -}}
{{- with .Values.config.state }}{{ if and .url .keys }}true{{ end }}{{ end }}
{{- end }}

{{/* The most pods there can be. */}}
{{- define "toolgate.replicas" -}}
{{- with .Values.autoscaling }}{{ ternary .maxReplicas $.Values.replicaCount .enabled }}{{ end }}
{{- end }}

{{/* A duration of the configuration in whole seconds, rounded up. */}}
{{- define "toolgate.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int }}
{{- $unit := regexFind "[a-z]+$" . }}
{{- if eq $unit "ms" }}{{ divf $number 1000 | ceil | int }}
{{- else }}{{ mul $number (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) }}{{ end }}
{{- end }}

{{- define "toolgate.terminationGracePeriodSeconds" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- add .Values.preStopSeconds (include "toolgate.seconds" (default "0s" .Values.config.server.drain_delay) | int) (include "toolgate.seconds" .Values.config.server.shutdown_grace | int) 10 }}
{{- else }}
{{- .Values.terminationGracePeriodSeconds }}
{{- end }}
{{- end }}

{{/* Constraints, those without a labelSelector with ours. */}}
{{- define "toolgate.spread" -}}
{{- $ours := dict "matchLabels" (include "toolgate.selectorLabels" .root | fromYaml) }}
{{- $spread := list }}
{{- range .constraints }}
{{- $spread = append $spread (set (deepCopy .) "labelSelector" (default $ours .labelSelector)) }}
{{- end }}
{{- toYaml $spread }}
{{- end }}

{{/* gateway.yaml. Tool servers in the cluster reach the Service, unless the configuration knows better. */}}
{{- define "toolgate.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $server := $config.server }}
{{- if not (or $server.callback_url $server.public_url) }}
{{- $scheme := ternary "https" "http" (hasKey $server "tls") }}
{{- $host := printf "%s.%s.svc" (include "toolgate.fullname" .) .Release.Namespace }}
{{- $_ := set $server "callback_url" (printf "%s://%s:%d" $scheme $host (.Values.service.port | int)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* What a schema cannot say. */}}
{{- define "toolgate.check" -}}
{{- if and (gt (include "toolgate.replicas" . | int) 1) (not (include "toolgate.shared" .)) }}
{{- $where := ternary "autoscaling.maxReplicas" "replicaCount" .Values.autoscaling.enabled }}
{{- $lacking := ternary "config.state.keys" "config.state.url" (hasKey (.Values.config.state | default dict) "url") }}
{{- $alone := ternary "that have no key in common cannot read what others keep, and" "that share no Redis" (hasSuffix "keys" $lacking) }}
{{- fail (printf "%s is %s, but %s is not set: pods %s would run a repeated call twice. Set %s, or have one replica." $where (include "toolgate.replicas" .) $lacking $alone $lacking) }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas must not be greater than autoscaling.maxReplicas." }}
{{- end }}
{{- $server := .Values.config.server }}
{{- range $path, $host := dict "config.server.host" $server.host "config.server.admin.host" $server.admin.host }}
{{- if or (eq $host "localhost") (eq $host "::1") (hasPrefix "127." $host) }}
{{- fail (printf "%s is %s, where nothing outside the pod reaches it. Use 0.0.0.0, or :: for IPv6." $path $host) }}
{{- end }}
{{- end }}
{{- if eq (int $server.port) (int $server.admin.port) }}
{{- fail "config.server.port and config.server.admin.port must differ." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.enabled needs ingress.hosts." }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute.enabled needs httpRoute.parentRefs: the Gateways that are to take it." }}
{{- end }}
{{- if .Values.existingConfigMap }}
{{- range $key := keys (omit .Values.config "server" "state") | sortAlpha }}
{{- fail (printf "config.%s has no effect beside existingConfigMap. Write it into the ConfigMap %s." $key $.Values.existingConfigMap) }}
{{- end }}
{{- end }}
{{- $secrets := printf "^(%s)$" (include "toolgate.secretPaths" . | fromYamlArray | join "|") }}
{{- include "toolgate.refuseSecrets" (dict "secrets" $secrets "path" list "value" .Values.config) }}
{{- end }}
