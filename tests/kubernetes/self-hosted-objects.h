// The parts of bootkube's control plane, as templates: names between @ are replaced.
#pragma once

namespace talos {

// @PLACE@: "hostPath: {path: …}" or "secret: {secretName: …}". @NETWORK@: of the host.
inline const char* const kApiServerSpec = R"(
  hostNetwork: true
  tolerations: [{operator: Exists}]
  containers:
  - name: kube-apiserver
    image: k8s.gcr.io/kube-apiserver:v1.20.6
    command:
    - /go-runner
    - /usr/local/bin/kube-apiserver
    - --enable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ResourceQuota,Priority,NodeRestriction
    - --advertise-address=$(POD_IP)
    - --allow-privileged=true
    - --authorization-mode=Node,RBAC
    - --bind-address=0.0.0.0
    - --client-ca-file=/secrets/ca.crt
    - --enable-bootstrap-token-auth=true
    - --etcd-cafile=/secrets/etcd-client-ca.crt
    - --etcd-certfile=/secrets/etcd-client.crt
    - --etcd-keyfile=/secrets/etcd-client.key
    - --etcd-servers=https://127.0.0.1:2379
    - --insecure-port=0
    - --kubelet-client-certificate=/secrets/apiserver-kubelet-client.crt
    - --kubelet-client-key=/secrets/apiserver-kubelet-client.key
    - --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
    - --secure-port=6443
    - --service-account-issuer=https://10.5.0.2:6443
    - --service-account-key-file=/secrets/service-account.pub
    - --service-account-signing-key-file=/secrets/service-account.key
    - --service-cluster-ip-range=10.96.0.0/12
    - --tls-cert-file=/secrets/apiserver.crt
    - --tls-private-key-file=/secrets/apiserver.key
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    resources: {requests: {cpu: 200m}}
    volumeMounts: [{name: secrets, mountPath: /secrets, readOnly: true}]
  volumes: [{name: secrets, @PLACE@}]
)";
inline const char* const kControllerManagerSpec = R"(
  hostNetwork: @NETWORK@
  tolerations: [{operator: Exists}]
  containers:
  - name: kube-controller-manager
    image: k8s.gcr.io/kube-controller-manager:v1.20.6
    command:
    - /go-runner
    - /usr/local/bin/kube-controller-manager
    - --allocate-node-cidrs=true
    - --cluster-cidr=10.244.0.0/16
    - --service-cluster-ip-range=10.96.0.0/12
    - --cluster-signing-cert-file=/secrets/ca.crt
    - --cluster-signing-key-file=/secrets/ca.key
    - --configure-cloud-routes=false
    - --kubeconfig=/secrets/kubeconfig
    - --leader-elect=true
    - --root-ca-file=/secrets/ca.crt
    - --service-account-private-key-file=/secrets/service-account.key
    resources: {requests: {cpu: 200m}}
    volumeMounts: [{name: secrets, mountPath: /secrets, readOnly: true}]
    readinessProbe: {httpGet: {path: /healthz, port: 10252}, periodSeconds: 2}
  volumes: [{name: secrets, @PLACE@}]
)";
inline const char* const kSchedulerSpec = R"(
  hostNetwork: @NETWORK@
  tolerations: [{operator: Exists}]
  containers:
  - name: kube-scheduler
    image: k8s.gcr.io/kube-scheduler:v1.20.6
    command:
    - /go-runner
    - /usr/local/bin/kube-scheduler
    - --kubeconfig=/secrets/kubeconfig
    - --leader-elect=true
    resources: {requests: {cpu: 200m}}
    volumeMounts: [{name: secrets, mountPath: /secrets, readOnly: true}]
    readinessProbe: {httpGet: {path: /healthz, port: 10251}, periodSeconds: 2}
  volumes: [{name: secrets, @PLACE@}]
)";
// @SCRIPT@ is the folder of the program, kubectl and the template of the copy on each node.
inline const char* const kCheckpointerSpec = R"(
  hostNetwork: true
  tolerations: [{operator: Exists}]
  containers:
  - name: pod-checkpointer
    image: docker.io/library/busybox:1.37
    command: [sh, /checkpointer/run.sh, "@ROLE@"]
    resources: {requests: {cpu: 50m}}
    env:
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: PARENT, value: "@PARENT@"}
    volumeMounts:
    - {name: program, mountPath: /checkpointer, readOnly: true}
    - {name: kubernetes, mountPath: /etc/kubernetes}
    - {name: kubelet, mountPath: /var/lib/kubelet, readOnly: true}
  volumes:
  - {name: program, hostPath: {path: /var/lib/checkpointer}}
  - {name: kubernetes, hostPath: {path: /etc/kubernetes}}
  - {name: kubelet, hostPath: {path: /var/lib/kubelet}}
)";
// The DaemonSet's pods write the copy; the copy removes itself when the API server has reported for
// the grace period that its pod is gone. An API server that does not answer reports nothing.
inline const char* const kCheckpointerProgram = R"(
manifest=/etc/kubernetes/manifests
trap 'exit 0' TERM
case $1 in
parent)
  sed "s/@NAME@/$POD_NAME/g" /checkpointer/copy.yaml >/etc/kubernetes/.$POD_NAME
  mv /etc/kubernetes/.$POD_NAME $manifest/$POD_NAME.yaml
  while :; do sleep 1 & wait $!; done ;;
copy)
  gone=0
  while [ $gone -lt @GRACE@ ]; do
    sleep 1 & wait $!
    said=$(/checkpointer/kubectl --kubeconfig /etc/kubernetes/kubeconfig-kubelet --request-timeout=5s \
      -n kube-system get pod "$PARENT" -o name 2>&1)
    case $said in
    *NotFound*|*'no relationship found'*) gone=$((gone + 1)) ;;
    pod/*) gone=0 ;;
    esac
  done
  echo "$PARENT is gone: its copy goes as well"
  rm -f "$manifest/$PARENT.yaml"
  while :; do sleep 1 & wait $!; done ;;
esac
)";

}  // namespace talos
