{{- define "holdfast.name" -}}
{{- if contains "holdfast" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-holdfast" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "holdfast.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "holdfast.name" .) }}
{{- end }}

{{- define "holdfast.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The names of the user's own variables. */ -}}
{{- define "holdfast.env" -}}
{{- range .Values.env }}
- {{ .name }}
{{- end }}
{{- end }}

{{- /* What the server would refuse to start with, refused before anything is installed. */ -}}
{{- define "holdfast.check" -}}
{{- $env := include "holdfast.env" . | fromYamlArray }}
{{- range $name, $value := dict "HOLDFAST_GRPC_ADDR" "" "HOLDFAST_HTTP_ADDR" "" "HOLDFAST_DURABILITY" ": set durability" "HOLDFAST_DRAIN_DELAY" ": set drainDelaySeconds" "HOLDFAST_STOP_TIMEOUT" ": set stopTimeoutSeconds" "HOLDFAST_REDIS_URL" ": set stores.existingSecret" "HOLDFAST_POSTGRES_URL" ": set stores.existingSecret" }}
{{- if has $name $env }}{{ fail (printf "env: %s is set by the chart%s" $name $value) }}{{ end }}
{{- end }}
{{- range include "holdfast.access" . | fromYamlArray }}
{{- if has .name $env }}{{ fail (printf "env: %s is set by the chart, from the value for it" .name) }}{{ end }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}{{ fail "autoscaling: minReplicas is more than maxReplicas" }}{{ end }}
{{- if not (dig "requests" "cpu" "" .Values.resources) }}{{ fail "autoscaling needs resources.requests.cpu, of which its target is a share" }}{{ end }}
{{- end }}
{{- $tls := or .Values.tls.existingSecret (has "HOLDFAST_TLS_CERT" $env) }}
{{- $callers := or .Values.callers.existingSecret (has "HOLDFAST_CALLERS_FILE" $env) }}
{{- if not (or .Values.insecure (and $tls $callers)) }}
{{- fail "callers would not be known, or nothing would be encrypted: set tls.existingSecret and callers.existingSecret, or insecure=true if the network keeps out who must not call" }}
{{- end }}
{{- if and .Values.tls.clientCA.existingSecret (not (and $tls $callers)) }}
{{- fail "tls.clientCA is of use only with tls.existingSecret and callers.existingSecret" }}
{{- end }}
{{- with .Values.jwt }}
{{- $keys := or .jwksURL .existingSecret }}
{{- if and .jwksURL .existingSecret }}
{{- fail "jwt: of jwksURL and existingSecret only one" }}
{{- else if and $keys (not (and .issuer .audience $callers)) }}
{{- fail "jwt needs issuer, audience and callers.existingSecret" }}
{{- else if and (or .issuer .audience) (not $keys) }}
{{- fail "jwt needs jwksURL or existingSecret" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secrets of which files are mounted, each at /etc/holdfast/NAME, and which keys become which files. */ -}}
{{- define "holdfast.secrets" -}}
{{- with .Values.tls.existingSecret }}
- {name: tls, secret: {{ . }}, files: {tls.crt: tls.crt, tls.key: tls.key}}
{{- end }}
{{- with .Values.tls.clientCA }}{{ if .existingSecret }}
- {name: client-ca, secret: {{ .existingSecret }}, files: {ca.crt: {{ .key | quote }}}}
{{- end }}{{ end }}
{{- with .Values.callers }}{{ if .existingSecret }}
- {name: callers, secret: {{ .existingSecret }}, files: {callers.json: {{ .key | quote }}}}
{{- end }}{{ end }}
{{- with .Values.jwt }}{{ if .existingSecret }}
- {name: jwks, secret: {{ .existingSecret }}, files: {jwks.json: {{ .key | quote }}}}
{{- end }}{{ end }}
{{- with .Values.stores.redisTLS }}{{ if .existingSecret }}
- name: redis
  secret: {{ .existingSecret }}
  files: {ca.crt: ca.crt{{ if .clientCertificate }}, tls.crt: tls.crt, tls.key: tls.key{{ end }}}
{{- end }}{{ end }}
{{- include "holdfast.postgresSecret" . }}
{{- end }}

{{- /* All of its keys are mounted, since the URL says which it uses. */ -}}
{{- define "holdfast.postgresSecret" -}}
{{- with .Values.stores.postgresTLS.existingSecret }}
- {name: postgres, secret: {{ . }}}
{{- end }}
{{- end }}

{{- /* Of .secrets and .more. Only the pod's group may read them. */ -}}
{{- define "holdfast.volumes" -}}
{{- range .secrets }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    {{- with .files }}
    items:
      {{- range $file, $key := . }}
      - {key: {{ $key | quote }}, path: {{ $file }}}
      {{- end }}
    {{- end }}
{{- end }}
{{- with .more }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "holdfast.mounts" -}}
{{- range .secrets }}
- {name: {{ .name }}, mountPath: /etc/holdfast/{{ .name }}, readOnly: true}
{{- end }}
{{- with .more }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What Go is told of the container. By itself it would use, and let calls in for, as many processors as the node has. Of the memory
a tenth is left for what Go does not count. Variables of env come first. */ -}}
{{- define "holdfast.runtime" -}}
{{- $env := include "holdfast.env" . | fromYamlArray }}
{{- $cpu := dig "requests" "cpu" "" .Values.resources }}
{{- if and $cpu (not (dig "limits" "cpu" "" .Values.resources)) (not (has "GOMAXPROCS" $env)) }}
- name: GOMAXPROCS
  valueFrom: {resourceFieldRef: {resource: requests.cpu}}
{{- end }}
{{- $memory := dig "limits" "memory" "" .Values.resources | toString }}
{{- if and (regexMatch "^[0-9]+[MG]i$" $memory) (not (has "GOMEMLIMIT" $env)) }}
- {name: GOMEMLIMIT, value: {{ printf "%dMiB" (div (mul 9 (regexFind "^[0-9]+" $memory) (ternary 1024 1 (hasSuffix "Gi" $memory))) 10) }}}
{{- end }}
{{- end }}

{{- define "holdfast.access" -}}
{{- if .Values.insecure }}
- {name: HOLDFAST_INSECURE, value: "true"}
{{- end }}
{{- if .Values.tls.existingSecret }}
- {name: HOLDFAST_TLS_CERT, value: /etc/holdfast/tls/tls.crt}
- {name: HOLDFAST_TLS_KEY, value: /etc/holdfast/tls/tls.key}
{{- end }}
{{- if .Values.tls.clientCA.existingSecret }}
- {name: HOLDFAST_TLS_CLIENT_CA, value: /etc/holdfast/client-ca/ca.crt}
{{- end }}
{{- if .Values.callers.existingSecret }}
- {name: HOLDFAST_CALLERS_FILE, value: /etc/holdfast/callers/callers.json}
{{- end }}
{{- with .Values.jwt }}{{ if or .jwksURL .existingSecret }}
- {name: HOLDFAST_JWKS, value: {{ .jwksURL | default "/etc/holdfast/jwks/jwks.json" | quote }}}
- {name: HOLDFAST_JWT_ISSUER, value: {{ .issuer | quote }}}
- {name: HOLDFAST_JWT_AUDIENCE, value: {{ .audience | quote }}}
{{- end }}{{ end }}
{{- if not .Values.reflection }}
- {name: HOLDFAST_NO_REFLECTION, value: "true"}
{{- end }}
{{- end }}

{{- define "holdfast.redis" -}}
{{ include "holdfast.url" (dict "variable" "HOLDFAST_REDIS_URL" "key" .Values.stores.redisURLKey "stores" .Values.stores) }}
{{- with .Values.stores.redisTLS }}{{ if .existingSecret }}
- {name: HOLDFAST_REDIS_CA, value: /etc/holdfast/redis/ca.crt}
{{- if .clientCertificate }}
- {name: HOLDFAST_REDIS_CERT, value: /etc/holdfast/redis/tls.crt}
- {name: HOLDFAST_REDIS_KEY, value: /etc/holdfast/redis/tls.key}
{{- end }}
{{- end }}{{ end }}
{{- end }}

{{- define "holdfast.url" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ required "stores.existingSecret must name a Secret with the URLs of Redis and Postgres" .stores.existingSecret }}
      key: {{ .key }}
{{- end }}
