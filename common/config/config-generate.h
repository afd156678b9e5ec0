// Generates new clusters: secrets, machine configs and the client configuration of their
// administrator. Pure but for randomness and the clock of
// certificates; it writes no files. A caller must write the texts with mode 0600: each of them
// holds private keys.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/config/talosconfig.h"
#include "common/tls/pki.h"
#include "rpc/config.capnp.h"

namespace talos::config {

// Everything that is secret in a cluster. Made once; all machine configs of the cluster share it.
struct Secrets {
  pki::CertificateAndKey machineAuthority, etcdAuthority, kubernetesAuthority, aggregatorAuthority;
  pki::Pem serviceAccountKey;  // this and the aggregator's are empty before v0.9
  // Text, zeroed like keys. A cluster has one of the encryption secrets, or both.
  pki::Pem machineToken, clusterToken, encryptionSecret, secretboxSecret;
};

struct GenerateOptions {
  kj::StringPtr installDisk = "/dev/sda";
  kj::StringPtr installImage = "";  // empty: this build's own (common/base/installer-name.h)
  kj::ArrayPtr<const kj::StringPtr> installArguments = nullptr;  // of the kernel
  kj::ArrayPtr<const kj::String> additionalSans = nullptr;
  kj::StringPtr dnsDomain = "cluster.local";
  kj::StringPtr talosVersion = "";  // contract "v<major>.<minor>"; empty: the newest
  kj::StringPtr kubernetesVersion =
      "";  // "1.20.6", a leading v is ignored; empty: no images are named
  kj::ArrayPtr<const kj::String> registryMirrors = nullptr;  // host=URL
  bool dualStack = false;  // pods and Services have both families, that of the endpoint first
  bool persist = true;
  bool debug = false;
  bool docs = true;       // each key with its description as a comment
  bool examples = false;  // and examples of keys that are absent
};

// The settings of one machine, for clusters whose machines are known beforehand.
struct NodeSettings {
  kj::StringPtr hostname = "";
  kj::StringPtr interface = "eth0";
  kj::StringPtr cidr = "";                  // empty: no interface is named
  kj::StringPtr gateway = "";               // empty: no default route
  kj::StringPtr cidr6 = "", gateway6 = "";  // the same of IPv6 beside it: another entry of the link
  kj::StringPtr vip = "";                   // that the control-plane nodes share; empty: none
  bool ignoreInterface = false;             // somebody else configures it: neither cidr nor gateway
  kj::ArrayPtr<const kj::String> nameservers = nullptr;
  kj::ArrayPtr<const kj::String> certSans = nullptr;  // of the machine API
  kj::ArrayPtr<const kj::String> timeServers = nullptr;
};

// "https://host[:port]". Throws InvalidArgument that proposes the URL that was probably meant.
void checkEndpoint(kj::StringPtr url);

Secrets makeSecrets(const GenerateOptions& options = {});
// Those of the cluster that a control-plane machine belongs to; what its config lacks is empty.
Secrets secretsOf(Config::Reader config);

// One machine config. Throws InvalidArgument for an option that makes no sense.
kj::String machineConfig(const Secrets& secrets, MachineType type, kj::StringPtr clusterName,
                         kj::StringPtr endpoint, const GenerateOptions& options = {},
                         const NodeSettings& node = {});

// The administrator's context: a new certificate with O=os:admin. `endpoints` and `nodes` go in as
// they are.
Talosconfig adminConfig(const Secrets& secrets, kj::StringPtr clusterName,
                        kj::ArrayPtr<const kj::String> endpoints,
                        kj::ArrayPtr<const kj::String> nodes = nullptr);

// All of it, as `gen config` writes it.
struct Generated {
  kj::String init, controlplane, join, talosconfig;
};
Generated generate(kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options = {});
// The same cluster again. Throws InvalidArgument when the secrets lack what the version needs; what
// it does not know is left out.
Generated generate(const Secrets& secrets, kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options = {});

}  // namespace talos::config
