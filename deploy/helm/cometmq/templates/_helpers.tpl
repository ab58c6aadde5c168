{{/* The name of the release's objects; short enough for a suffix and an ordinal number. */}}
{{- define "cometmq.name" -}}
{{- if contains "cometmq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-cometmq" (.Release.Name | trunc 32 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels that select the pods of a role: (dict "root" $ "role" "broker"). */}}
{{- define "cometmq.selector" -}}
app.kubernetes.io/name: cometmq
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "cometmq.labels" -}}
{{ include "cometmq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "cometmq.secret" -}}
{{ .Values.access.existingSecret | default (printf "%s-access" (include "cometmq.name" .)) }}
{{- end }}

{{/* The addresses of all nameservers, each by the name of its pod. */}}
{{- define "cometmq.nameservers" -}}
{{- $name := printf "%s-nameserver" (include "cometmq.name" .) -}}
{{- $addresses := list -}}
{{- range until (int .Values.nameserver.replicas) }}{{ $addresses = append $addresses (printf "%s-%d.%s:9876" $name . $name) }}{{ end -}}
{{ join ";" $addresses }}
{{- end }}

{{/* The pod of a role but for its containers: security, placement, volumes besides the data. */}}
{{- define "cometmq.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 120
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if eq .root.Values.antiAffinity "required" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector: { matchLabels: {{ include "cometmq.selector" . | fromYaml | toJson }} }
{{- else if eq .root.Values.antiAffinity "preferred" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector: { matchLabels: {{ include "cometmq.selector" . | fromYaml | toJson }} }
{{- end }}
{{- end }}

{{- define "cometmq.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* Settings of access control that nameservers and brokers share. */}}
{{- define "cometmq.access" -}}
- name: ADMIN_PASSWORD
  valueFrom: { secretKeyRef: { name: {{ include "cometmq.secret" . }}, key: password } }
- name: CLUSTER_SECRET
  valueFrom: { secretKeyRef: { name: {{ include "cometmq.secret" . }}, key: cluster-secret } }
- name: COMETMQ_INIT_AUTHENTICATION_USER
  value: '{"username":"admin","password":"$(ADMIN_PASSWORD)"}'
- name: COMETMQ_INNER_CLIENT_AUTHENTICATION_CREDENTIALS
  value: '{"accessKey":"cluster","secretKey":"$(CLUSTER_SECRET)"}'
{{- end }}

{{/* The lines that both configuration files have. */}}
{{- define "cometmq.config" -}}
# Each pod has a network of its own, and a mesh may forward connections to it from inside.
bindAddress=0.0.0.0
ownMachineIsTrusted=false
authenticationEnabled=true
authorizationEnabled=true
adminWithoutTls={{ .Values.access.adminWithoutTls }}
metricsPromExporterHost=0.0.0.0
metricsPromExporterPort=5557
{{- end }}

{{/* Lines of a configuration file. Helm reads whole numbers as fractions, and would write large ones with an exponent. */}}
{{- define "cometmq.lines" -}}
{{- range $key, $value := . }}
{{ $key }}={{ if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{- end }}

{{/* Before a start: the files of settings and secrets, from volumes that cannot be written, into the data, where changes
     that are made at run time are kept beside them. */}}
{{- define "cometmq.prepare" -}}
- name: settings
  {{- include "cometmq.container" . | nindent 2 }}
  command: [install, --mode=0600, -D, --target-directory=/var/lib/cometmq/conf]
  resources: { requests: { cpu: 10m, memory: 16Mi }, limits: { memory: 64Mi } }
{{- end }}

{{/* A start after a kill reads the log: half an hour before it counts as hanging. */}}
{{- define "cometmq.probes" -}}
startupProbe: { httpGet: { path: /healthz, port: metrics }, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 360 }
livenessProbe: { httpGet: { path: /healthz, port: metrics }, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }
readinessProbe: { httpGet: { path: /readyz, port: metrics }, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2 }
{{- end }}

{{- define "cometmq.claim" -}}
- metadata: { name: data }
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .class }}
    storageClassName: {{ . }}
    {{- end }}
    resources: { requests: { storage: {{ .size }} } }
{{- end }}
