@0xa8c3d1e94f7b2065;
# The file of `talosctl gen secrets`: everything that is secret in a cluster, from which `gen config
# --with-secrets` makes the same authorities and tokens again. Its layout is that of the original's
# later versions. talosctl/config/secrets-bundle.h reads and writes it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";
using Config = import "config.capnp";

struct SecretsBundle {
  secrets @0 :KubernetesSecrets $A.required $A.doc("Secrets of Kubernetes.");
  trustdinfo @1 :TrustdInfo $A.required $A.doc("How machines join the cluster.");
  certs @2 :Authorities $A.required
      $A.doc("Certificate authorities and keys: PEM text, encoded in base64 once more.");

  struct KubernetesSecrets {
    bootstraptoken @0 :Text $A.secret $A.required
        $A.doc("cluster.token: kubelets join the cluster with it.");
    aescbcencryptionsecret @1 :Text $A.secret $A.required
        $A.doc("cluster.aescbcEncryptionSecret: secrets in etcd are encrypted with it.");
  }
  struct TrustdInfo {
    token @0 :Text $A.secret $A.required
        $A.doc("machine.token: machines ask with it for the certificate of their API.");
  }
  struct Authorities {
    etcd @0 :Config.CertificateAndKey $A.required $A.doc("cluster.etcd.ca");
    k8s @1 :Config.CertificateAndKey $A.required $A.doc("cluster.ca");
    k8saggregator @2 :Config.CertificateAndKey $A.doc("cluster.aggregatorCA; absent before v0.9");
    k8sserviceaccount @3 :Config.ServiceAccount
        $A.doc("cluster.serviceAccount; absent before v0.9");
    os @4 :Config.CertificateAndKey $A.required $A.doc("machine.ca");
  }
}
