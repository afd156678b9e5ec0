@0xa8c3d1e94f7b2065;
# The file of `talosctl gen secrets` with all secrets of a cluster, from which `gen config --with-secrets` makes the
# same authorities and tokens again. Its layout is that of Talos' later versions.
# talosctl/config/secrets-bundle.h reads and writes it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";
using Config = import "config.capnp";

struct SecretsBundle {
  secrets @0 :KubernetesSecrets $A.required $A.doc("Secrets of Kubernetes.");
  trustdinfo @1 :TrustdInfo $A.required $A.doc("How nodes join the cluster.");
  certs @2 :Authorities $A.required
      $A.doc("CAs and keys in PEM format, encoded in base64.");

  struct KubernetesSecrets {
    bootstraptoken @0 :Text $A.secret $A.required
        $A.doc("cluster.token: bootstrap token of kubelets.");
    aescbcencryptionsecret @1 :Text $A.secret
        $A.doc("cluster.aescbcEncryptionSecret: key that encrypts secrets in etcd.");
    secretboxencryptionsecret @2 :Text $A.secret
        $A.doc("cluster.secretboxEncryptionSecret: key that encrypts them by secretbox.");
  }
  struct TrustdInfo {
    token @0 :Text $A.secret $A.required
        $A.doc("machine.token: nodes request their API certificates with it.");
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
