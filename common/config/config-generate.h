// Generates new clusters: secrets, machine configs and the client configuration of their
// administrator. Pure, except for randomness and for the clock of certificates; it writes no files.
// A caller must write the texts with mode 0600: each of them holds private keys.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/talosconfig/talosconfig.h"
#include "common/tls/pki.h"
#include "rpc/config.capnp.h"

namespace talos::config {

// Secrets of a cluster. They are generated once; all machine configs of the cluster share them.
struct Secrets {
  pki::CertificateAndKey machineAuthority, etcdAuthority, kubernetesAuthority, aggregatorAuthority;
  pki::Pem serviceAccountKey;  // empty before v0.9, as is the aggregator's
  // Texts, zeroed like keys. A cluster has one of the encryption secrets, or both.
  pki::Pem machineToken, clusterToken, encryptionSecret, secretboxSecret;
};

struct GenerateOptions {
  kj::StringPtr installDisk = "/dev/sda";
  kj::StringPtr installImage = "";  // empty for this build's image (common/base/version.h)
  kj::ArrayPtr<const kj::StringPtr> installArguments = nullptr;  // arguments of the kernel
  kj::ArrayPtr<const kj::String> additionalSans = nullptr;
  kj::StringPtr dnsDomain = "cluster.local";
  kj::StringPtr talosVersion = "";  // contract "v<major>.<minor>"; empty for the newest
  kj::StringPtr kubernetesVersion =
      "";  // "1.20.6", a leading v is ignored; empty to name no images
  kj::ArrayPtr<const kj::String> registryMirrors = nullptr;  // host=URL
  bool dualStack = false;  // pods and Services have both families, the endpoint's family first
  bool persist = true;
  bool debug = false;
  bool docs = true;       // adds the description of each key as a comment
  bool examples = false;  // adds examples of keys that are absent
};

// Settings of one machine, for clusters whose machines are known beforehand.
struct NodeSettings {
  kj::StringPtr hostname = "";
  kj::StringPtr interface = "eth0";
  kj::StringPtr cidr = "";                  // empty to name no interface
  kj::StringPtr gateway = "";               // empty for no default route
  kj::StringPtr cidr6 = "", gateway6 = "";  // the same for IPv6, as another entry of the link
  kj::StringPtr vip = "";                   // address of the control-plane nodes; may be empty
  bool ignoreInterface = false;             // configured elsewhere: neither cidr nor gateway
  kj::ArrayPtr<const kj::String> nameservers = nullptr;
  kj::ArrayPtr<const kj::String> certSans = nullptr;  // further names of the machine API
  kj::ArrayPtr<const kj::String> timeServers = nullptr;
};

// Checks for "https://host[:port]". Throws InvalidArgument that proposes the URL that was probably
// meant.
void checkEndpoint(kj::StringPtr url);

Secrets makeSecrets(const GenerateOptions& options = {});
// Returns the secrets of the cluster from the config of a control-plane machine; secrets that the
// config lacks are empty.
Secrets secretsOf(Config::Reader config);

// Returns one machine config. Throws InvalidArgument for an option that makes no sense.
kj::String machineConfig(const Secrets& secrets, MachineType type, kj::StringPtr clusterName,
                         kj::StringPtr endpoint, const GenerateOptions& options = {},
                         const NodeSettings& node = {});

// Returns the administrator's context: a new certificate with O=os:admin, for one year. `endpoints`
// and `nodes` are copied unchanged.
Talosconfig adminConfig(const Secrets& secrets, kj::StringPtr clusterName,
                        kj::ArrayPtr<const kj::String> endpoints,
                        kj::ArrayPtr<const kj::String> nodes = nullptr);

// All texts that `gen config` writes. The talosconfig has no endpoint: users set their own.
// Returns a warning for a version of Kubernetes, with or without v, that this system does not
// support; nullptr for another one, and for a text that generate() refuses.
kj::Maybe<kj::String> unsupportedRelease(kj::StringPtr kubernetesVersion);

struct Generated {
  kj::String init, controlplane, join, talosconfig;
};
Generated generate(kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options = {});
// Generates the configs of the same cluster again. Throws InvalidArgument if the secrets lack what
// the version needs; secrets that the version does not know are left out.
Generated generate(const Secrets& secrets, kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options = {});

}  // namespace talos::config
