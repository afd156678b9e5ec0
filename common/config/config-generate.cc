#include "common/config/config-generate.h"

#include <capnp/message.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/version.h"
#include "common/config/config-example.h"
#include "common/config/config.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

constexpr kj::Duration kAuthorityLifetime = 87600 * kj::HOURS;
constexpr kj::Duration kAdminLifetime = 8760 * kj::HOURS;  // as `config new` and `config renew`

struct Subnets {
  kj::StringPtr pods, services;
};
constexpr Subnets kIpv4Subnets = {"10.244.0.0/16"_kj, "10.96.0.0/12"_kj};
constexpr Subnets kIpv6Subnets = {"fc00:db8:10::/56"_kj, "fc00:db8:20::/112"_kj};

kj::Maybe<unsigned> number(kj::ArrayPtr<const char> digits) {
  if (digits.size() == 0 || digits.size() > 4) return nullptr;
  unsigned value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return nullptr;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Does this contract have ECDSA authorities, the aggregator's authority and the service account's
// key?
bool isNewContract(kj::StringPtr version) {
  if (version.size() == 0 || version == "latest") return true;
  auto text = version.startsWith("v") ? version.slice(1) : version;
  size_t dot = text.findFirst('.').orDefault(0);
  size_t end = dot + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  if (dot > 0) {
    KJ_IF_MAYBE (major, number(text.slice(0, dot))) {
      KJ_IF_MAYBE (minor, number(text.slice(0, end).slice(dot + 1, end)))
        return *major > 0 || *minor > 8;
    }
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", version, "\" is not a valid version; use the form v0.9"));
}

void setPair(CertificateAndKey::Builder to, const pki::CertificateAndKey& from, bool withKey) {
  to.setCrt(from.certificate.asBytes());
  if (withKey) to.setKey(from.key.bytes());
}

void setImages(Config::Builder config, kj::StringPtr text, bool controlPlane) {
  if (text.size() == 0) return;
  auto plain = text.startsWith("v") ? text.slice(1) : text;
  auto parsed = parseKubernetesVersion(plain);
  bool good = parsed != nullptr;
  for (char c : plain) {
    good = good && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-');
  }
  if (!good) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", text, "\" is not a valid version of Kubernetes; for example v1.34.4"));
  }
  auto image = [&](KubernetesPart part) {
    return kj::str(kubernetesRepository(part, KJ_ASSERT_NONNULL(parsed)), ":v", plain);
  };
  config.getMachine().getKubelet().setImage(image(KubernetesPart::kKubelet));
  if (!controlPlane) return;
  auto cluster = config.getCluster();
  cluster.getApiServer().setImage(image(KubernetesPart::kApiServer));
  cluster.getControllerManager().setImage(image(KubernetesPart::kControllerManager));
  cluster.getProxy().setImage(image(KubernetesPart::kProxy));
  cluster.getScheduler().setImage(image(KubernetesPart::kScheduler));
}

void setMirrors(Machine::Builder machine, kj::ArrayPtr<const kj::String> mirrors) {
  if (mirrors.size() == 0) return;
  kj::TreeMap<kj::String, kj::String> byHost;
  for (auto& mirror : mirrors) {
    KJ_IF_MAYBE (equals, mirror.findFirst('=')) {
      auto host = kj::heapString(mirror.slice(0, *equals));
      auto url = kj::str(mirror.slice(*equals + 1));
      auto parsed = parseEndpoint(url);
      if (host.size() > 0 && parsed.problem.size() == 0) {
        byHost.upsert(kj::mv(host), kj::mv(url),
                      [](kj::String& old, kj::String&& next) { old = kj::mv(next); });
        continue;
      }
    }
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", mirror, "\" is not a valid registry mirror; use <registry host>=<URL>"));
  }
  auto list = machine.initRegistries().initMirrors(byHost.size());
  size_t i = 0;
  for (auto& row : byHost) {
    auto entry = list[i++];
    entry.setKey(row.key);
    entry.initValue().initEndpoints(1).set(0, row.value);
  }
}

void setAddress(Interface::Builder interface, kj::StringPtr cidr, kj::StringPtr gateway) {
  interface.setCidr(cidr);
  if (gateway.size() == 0) return;
  auto route = interface.initRoutes(1)[0];
  route.setNetwork(gateway.findFirst(':') == nullptr ? "0.0.0.0/0" : "::/0");
  route.setGateway(gateway);
}

void setNetwork(Network::Builder network, const NodeSettings& node) {
  if (node.hostname.size() > 0) network.setHostname(node.hostname);
  if (node.nameservers.size() > 0) {
    auto list = network.initNameservers(node.nameservers.size());
    for (size_t i = 0; i < node.nameservers.size(); ++i) list.set(i, node.nameservers[i]);
  }
  if (node.cidr.size() == 0 && !node.ignoreInterface) return;
  auto interfaces = network.initInterfaces(node.cidr6.size() > 0 ? 2 : 1);
  auto interface = interfaces[0];
  interface.setInterface(node.interface);
  if (node.vip.size() > 0) interface.initVip().setIp(node.vip);
  if (node.ignoreInterface) {
    interface.setIgnore(true);
    return;
  }
  setAddress(interface, node.cidr, node.gateway);
  if (node.cidr6.size() > 0) {
    interfaces[1].setInterface(node.interface);
    setAddress(interfaces[1], node.cidr6, node.gateway6);
  }
}

void setMachine(Machine::Builder machine, const Secrets& secrets, MachineType type,
                const GenerateOptions& options, const NodeSettings& node) {
  machine.setType(type);
  machine.setToken(kj::StringPtr(secrets.machineToken));
  if (node.certSans.size() > 0) {
    auto sans = machine.initCertSANs(node.certSans.size());
    for (size_t i = 0; i < node.certSans.size(); ++i) sans.set(i, node.certSans[i]);
  }
  if (node.timeServers.size() > 0) {
    auto servers = machine.initTime().initServers(node.timeServers.size());
    for (size_t i = 0; i < node.timeServers.size(); ++i) servers.set(i, node.timeServers[i]);
  }
  // Without the key a worker knows the control plane by it.
  setPair(machine.initCa(), secrets.machineAuthority, isControlPlane(type));
  machine.initKubelet();
  setNetwork(machine.initNetwork(), node);
  auto install = machine.initInstall();
  install.setDisk(options.installDisk);
  install.setImage(options.installImage.size() > 0 ? kj::str(options.installImage)
                                                   : installerImage());
  if (options.installArguments.size() > 0) {
    auto count = static_cast<unsigned>(options.installArguments.size());
    fillTexts(install.initExtraKernelArgs(count), options.installArguments);
  }
  setMirrors(machine, options.registryMirrors);
}

void setCluster(Cluster::Builder cluster, const Secrets& secrets, bool controlPlane,
                kj::StringPtr clusterName, kj::StringPtr endpoint, const GenerateOptions& options,
                const NodeSettings& node) {
  auto host = parseEndpoint(endpoint).value.host;
  cluster.initControlPlane().setEndpoint(endpoint);
  cluster.setClusterName(clusterName);
  auto network = cluster.initNetwork();
  bool six = host.findFirst(':') != nullptr;
  kj::Vector<Subnets> subnets;
  subnets.add(six ? kIpv6Subnets : kIpv4Subnets);
  if (options.dualStack) subnets.add(six ? kIpv4Subnets : kIpv6Subnets);
  network.setDnsDomain(options.dnsDomain);
  auto pods = network.initPodSubnets(static_cast<unsigned>(subnets.size()));
  auto services = network.initServiceSubnets(static_cast<unsigned>(subnets.size()));
  for (auto i : kj::indices(subnets)) {
    pods.set(i, subnets[i].pods);
    services.set(i, subnets[i].services);
  }
  cluster.setToken(kj::StringPtr(secrets.clusterToken));
  setPair(cluster.initCa(), secrets.kubernetesAuthority, controlPlane);
  if (!controlPlane) return;

  cluster.setAescbcEncryptionSecret(kj::StringPtr(secrets.encryptionSecret));
  if (secrets.secretboxSecret.bytes().size() > 0)
    cluster.setSecretboxEncryptionSecret(kj::StringPtr(secrets.secretboxSecret));
  if (isNewContract(options.talosVersion) && secrets.aggregatorAuthority.certificate.size() > 0) {
    setPair(cluster.initAggregatorCA(), secrets.aggregatorAuthority, true);
    cluster.initServiceAccount().setKey(secrets.serviceAccountKey.bytes());
  }
  auto sans = cluster.initApiServer().initCertSANs(1 + options.additionalSans.size());
  sans.set(0, host);
  for (size_t i = 0; i < options.additionalSans.size(); ++i)
    sans.set(i + 1, options.additionalSans[i]);
  cluster.initControllerManager();
  cluster.initProxy();
  cluster.initScheduler();
  setPair(cluster.initEtcd().initCa(), secrets.etcdAuthority, true);
}

}  // namespace

void checkEndpoint(kj::StringPtr url) {
  auto parsed = parseEndpoint(url);
  if (parsed.problem.size() == 0 && parsed.value.scheme == "https") return;
  // The suggestion: the same host under https, on the port of the API. The text is that of the
  // original.
  auto retry = parseEndpoint(kj::str("https://", url));
  auto bracketed = parseEndpoint(kj::str("https://[", url, "]"));
  auto& best = parsed.problem.size() == 0 ? parsed : retry.problem.size() == 0 ? retry : bracketed;
  if (best.problem.size() > 0) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the endpoint of the Kubernetes API must be an https URL, for example "
                 "https://10.5.0.2:6443; \"",
                 url, "\" is not one"));
  }
  auto wrong = &best == &parsed ? "the control plane endpoint URL should have scheme https://"_kj
               : best.value.port == nullptr
                   ? "no scheme and port specified for the cluster endpoint URL"_kj
                   : "no scheme specified for the cluster endpoint URL"_kj;
  auto host = hostInUrl(best.value.host, best.value.port.orDefault(6443));
  fail(ErrorKind::kInvalidArgument, kj::str(wrong, "\ntry: \"https://", host, "\""));
}

Secrets makeSecrets(const GenerateOptions& options) {
  bool isNew = isNewContract(options.talosVersion);
  auto type = isNew ? pki::KeyType::kEcdsaP256 : pki::KeyType::kRsa4096;
  auto authority = [](kj::StringPtr organization, pki::KeyType keyType,
                      kj::StringPtr commonName = "") {
    return pki::makeAuthority({.organization = organization,
                               .commonName = commonName,
                               .keyType = keyType,
                               .lifetime = kAuthorityLifetime});
  };
  Secrets secrets;
  secrets.machineAuthority = authority("talos", pki::KeyType::kEd25519);
  secrets.etcdAuthority = authority("etcd", type);
  secrets.kubernetesAuthority = authority("kubernetes", type);
  if (isNew) {
    secrets.aggregatorAuthority = authority("", type, "front-proxy");
    secrets.serviceAccountKey = pki::makeKey(type);
  }
  secrets.machineToken = pki::Pem(pki::makeToken());
  secrets.clusterToken = pki::Pem(pki::makeToken());
  auto key = pki::randomBytes(kEncryptionKeyBytes);
  secrets.encryptionSecret = pki::Pem(kj::encodeBase64(key));
  zeroize(key.asChars());
  return secrets;
}

Secrets secretsOf(Config::Reader config) {
  auto text = [](kj::StringPtr from) { return pki::Pem(kj::str(from)); };
  auto key = [](capnp::Data::Reader from) { return pki::Pem(kj::str(from.asChars())); };
  auto pair = [&](CertificateAndKey::Reader from) {
    return pki::CertificateAndKey{kj::str(from.getCrt().asChars()), key(from.getKey())};
  };
  auto machine = config.getMachine();
  auto cluster = config.getCluster();
  Secrets secrets;
  secrets.machineAuthority = pair(machine.getCa());
  secrets.etcdAuthority = pair(cluster.getEtcd().getCa());
  secrets.kubernetesAuthority = pair(cluster.getCa());
  secrets.aggregatorAuthority = pair(cluster.getAggregatorCA());
  secrets.serviceAccountKey = key(cluster.getServiceAccount().getKey());
  secrets.machineToken = text(machine.getToken());
  secrets.clusterToken = text(cluster.getToken());
  secrets.encryptionSecret = text(cluster.getAescbcEncryptionSecret());
  secrets.secretboxSecret = text(cluster.getSecretboxEncryptionSecret());
  return secrets;
}

kj::String machineConfig(const Secrets& secrets, MachineType type, kj::StringPtr clusterName,
                         kj::StringPtr endpoint, const GenerateOptions& options,
                         const NodeSettings& node) {
  checkEndpoint(endpoint);
  if (clusterName.size() == 0) fail(ErrorKind::kInvalidArgument, kj::str("cluster name is empty"));
  bool controlPlane = isControlPlane(type);
  SecretMessage message;
  auto root = message.initRoot<Config>();
  root.setVersion("v1alpha1");
  root.setDebug(options.debug);
  root.setPersist(options.persist);
  setMachine(root.initMachine(), secrets, type, options, node);
  setCluster(root.initCluster(), secrets, controlPlane, clusterName, endpoint, options, node);
  setImages(root, options.kubernetesVersion, controlPlane);

  codec::WriteOptions form{.empties = codec::Empties::kOmit, .comments = options.docs};
  kj::Maybe<MachineConfig> examples;
  if (options.examples) {
    auto& example = examples.emplace(parse(configExample(controlPlane), "example"));
    form.examples = capnp::DynamicStruct::Reader(example.get());
  }
  auto text = codec::writeYaml(root.asReader(), form);
  // The reader's checks also hold for generated configs: a bad option is found now and not on a
  // machine.
  auto parsed = parse(text, "the generated config");
  if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
  return text;
}

Talosconfig adminConfig(const Secrets& secrets, kj::StringPtr clusterName,
                        kj::ArrayPtr<const kj::String> endpoints,
                        kj::ArrayPtr<const kj::String> nodes) {
  pki::LeafOptions options;
  options.organizations = kj::arr(kj::str("os:admin"));
  options.addresses = kj::arr(kj::str("127.0.0.1"));
  options.server = false;
  options.lifetime = kAdminLifetime;
  auto pair = pki::issue(secrets.machineAuthority.certificate, secrets.machineAuthority.key,
                         kj::mv(options));
  Context context;
  for (auto& endpoint : endpoints) context.endpoints.add(kj::str(endpoint));
  for (auto& node : nodes) context.nodes.add(kj::str(node));
  context.ca = kj::str(secrets.machineAuthority.certificate);
  context.certificate = kj::mv(pair.certificate);
  context.key = kj::mv(pair.key);
  Talosconfig config;
  config.add(clusterName, kj::mv(context));
  return config;
}

Generated generate(kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options) {
  checkEndpoint(endpoint);  // before the keys are made: RSA takes its time
  return generate(makeSecrets(options), clusterName, endpoint, options);
}

Generated generate(const Secrets& secrets, kj::StringPtr clusterName, kj::StringPtr endpoint,
                   const GenerateOptions& options) {
  checkEndpoint(endpoint);
  bool complete = secrets.aggregatorAuthority.certificate.size() > 0 &&
                  secrets.serviceAccountKey.bytes().size() > 0;
  if (isNewContract(options.talosVersion) && !complete) {
    fail(ErrorKind::kInvalidArgument,
         "the secrets lack the aggregator CA or the key of the service accounts; use "
         "--talos-version v0.8 for those of a cluster before v0.9");
  }
  auto write = [&](MachineType type) {
    return machineConfig(secrets, type, clusterName, endpoint, options);
  };
  return Generated{write(MachineType::INIT), write(MachineType::CONTROLPLANE),
                   write(MachineType::WORKER), adminConfig(secrets, clusterName, nullptr).toYaml()};
}

kj::Maybe<kj::String> unsupportedRelease(kj::StringPtr text) {
  KJ_IF_MAYBE (version, parseKubernetesVersion(text)) {
    if (isSupportedKubernetes(*version)) return nullptr;
    return kj::str("Kubernetes ", version->major, ".", version->minor,
                   " is not supported; use one of ", supportedKubernetesText());
  }
  return nullptr;
}

}  // namespace talos::config
