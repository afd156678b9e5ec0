@0x8615d23358554619;
# Resources with keys, certificates and tokens, and how a node gets its API certificate.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct KeyPair { crt @0 :Data $A.base64; key @1 :Data $A.base64 $A.secret; }      # PEM
struct ApiCertificateSpec $A.resource((type = "ApiCertificates.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The certificates of apid, as a server and as a client.
  ca @0 :Data $A.base64;                        # PEM, one or more certificates
  server @1 :KeyPair;                           # certificate of port 50000
  client @2 :KeyPair;                           # O = os:impersonator, towards other nodes
  maintenance @3 :Bool;
  # The machine has no config: `server` is a throw-away certificate, the other fields are empty, and anyone may call the
  # methods that are marked $maintenance.
}
struct RootSecretSpec $A.resource((type = "RootSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["rootSecret", "rootSecrets", "rs"])) $A.inline {
  union {
    etcd @0 :EtcdRoot;
    k8s @1 :KubernetesRoot;
    os @2 :OsRoot;
  }
  struct EtcdRoot { etcdCA @0 :KeyPair; }
  struct OsRoot {
    # For trustd, on nodes with the CA's key.
    ca @0 :KeyPair;
    token @1 :Text $A.secret;
    reserved @2 :List(Text);                    # names and addresses of the control plane: no worker gets them
    dnsDomain @3 :Text;
    certLifetimeS @4 :UInt64;
    anyAddress @5 :Bool;
    certSANs @6 :List(Text);                    # names and addresses of this machine, for trustd's own certificate
    controlPlaneKnown @7 :Bool;                 # `reserved` has the other control-plane nodes; else no names are signed
  }
  struct KubernetesRoot {
    name @0 :Text; endpoint @1 :Text; certSANs @2 :List(Text); apiServerIPs @3 :List(Text); dnsDomain @4 :Text;
    ca @5 :KeyPair; serviceAccountKey @6 :Data $A.base64 $A.secret; aggregatorCA @7 :KeyPair;
    aesCBCEncryptionSecret @8 :Text $A.secret; bootstrapTokenID @9 :Text; bootstrapTokenSecret @10 :Text $A.secret;
    secretboxEncryptionSecret @11 :Text $A.secret;
    acceptedCAs @12 :Data $A.base64;            # PEM, of cluster.acceptedCAs
    acceptedEncryptionSecrets @13 :List(Text) $A.secret;
    acceptedServiceAccountKeys @14 :Data $A.base64;   # PEM, public keys
    acceptedAggregatorCAs @15 :Data $A.base64;        # PEM
  }
}
struct JoinSpec $A.resource((type = "JoinSpecs.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The request that apid sends to trustd, on a node without the CA's key.
  endpoints @0 :List(Text);                     # names or addresses, in the order in which they are tried
  token @1 :Text $A.secret;
  ca @2 :Data $A.base64;                        # PEM; empty: caHash is used, and without caHash any server is trusted
  caHash @3 :Text;                              # sha256: and hex
  commonName @4 :Text;
  dnsNames @5 :List(Text);
  addresses @6 :List(Text);                     # of machine.certSANs, besides the source address of the request
  acceptedCAs @7 :Data $A.base64;               # PEM, of machine.acceptedCAs
  key @8 :Data $A.base64 $A.secret;             # PEM; of all requests with a join token, which is spent for this key
}
struct JoinStatusSpec $A.resource((type = "JoinStatuses.runtime.talos.dev", namespace = "runtime")) {
  # The progress of the join, written by apid. Never the token.
  ready @0 :Bool $A.column("Ready");            # a valid certificate exists
  endpoint @1 :Text $A.column("Endpoint");      # that apid now calls, or that gave the certificate
  message @2 :Text $A.column("Message");        # the current step, or the error and the time of the next attempt
  failures @3 :UInt32;                          # in a row
  verified @4 :Text;                            # ca, hash or nothing: how trustd was verified
  notBefore @5 :Text;                           # of the certificate, RFC 3339
  notAfter @6 :Text;
}
struct IssuedCertificateSpec $A.resource((type = "IssuedCertificates.runtime.talos.dev", namespace = "runtime")) {
  # A certificate that trustd of this machine has signed. The id is the serial number. Never changed; removed a day
  # after it has expired.
  caller @0 :Text $A.column("Caller");          # address that requested it
  dnsNames @1 :List(Text) $A.column("Names");
  addresses @2 :List(Text) $A.column("Addresses");
  issued @3 :Text $A.column("Issued");          # RFC 3339, as the others
  notBefore @4 :Text;
  notAfter @5 :Text $A.column("Valid until");
  fingerprint @6 :Text;                         # base64 of SHA-256 over the public key
  joinToken @7 :Text;                           # id of the join token; empty: signed for machine.token, or a renewal
}
struct EtcdSecretsSpec $A.resource((type = "EtcdSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["es"])) {
  # Id etcd: the certificates of the member itself, files in /etc/kubernetes/pki/etcd. Id client: those with which other
  # programs of the node connect to etcd, `client` and `ca` only.
  etcdPeer @0 :KeyPair;                         # towards other members, from them, and as a client
  ca @1 :Data $A.base64;                        # PEM, one or more certificates
  server @2 :KeyPair;                           # of port 2379
  client @3 :KeyPair;
  api @4 :KeyPair;                              # O = os:reader, towards apid of other control-plane nodes
  apiCa @5 :Data $A.base64;                     # PEM, one or more certificates
}
struct KubernetesSecretsSpec $A.resource((type = "KubernetesSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["ks"])) {
  apiServer @0 :KeyPair;
  apiServerKubeletClient @1 :KeyPair;
  frontProxy @2 :KeyPair;
  adminKubeconfig @3 :Text $A.secret;           # of the node itself: system:masters
  controllerManagerKubeconfig @4 :Text $A.secret;
  schedulerKubeconfig @5 :Text $A.secret;
}
struct KubeletClientSpec $A.resource((type = "KubeletClients.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The kubelet's credentials for the API server, while kubed needs them: for a drain, and on a worker
  # as long as the kubelet is healthy. The id is kubelet.
  kubeconfig @0 :Text $A.secret;
}
struct KubeletSecretsSpec $A.resource((type = "KubeletSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The id is kubelet.
  ca @0 :Data $A.base64;                        # of Kubernetes, PEM
  bootstrapKubeconfig @1 :Text $A.secret;       # with the bootstrap token
  machineCa @2 :Data $A.base64;                 # PEM: signs the certificates of all nodes; on a control-plane node
  clientCAs @3 :Data $A.base64;                 # PEM: CAs of clients that call the kubelet
  credentialProviders @4 :Text $A.secret;       # its CredentialProviderConfig; empty without programs
}
