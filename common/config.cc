#include "common/config.h"

#include <kj/encoding.h>

#include "common/error.h"
#include "common/file.h"
#include "common/ip.h"
#include "common/pki.h"
#include "common/yaml.h"

namespace talos::config {
namespace {

constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536;
constexpr size_t kLongestName = 253, kLongestLabel = 63;
constexpr size_t kEncryptionKeyBytes = 32;

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Labels of letters, digits, '-' and (as domain names of clusters may have) '_'; never an IP
// address.
bool isDnsName(kj::StringPtr name) {
  if (name.endsWith("."))
    return isDnsName(kj::heapString(name.asArray().slice(0, name.size() - 1)));
  if (name.size() == 0 || name.size() > kLongestName || Ip::parse(name) != nullptr) return false;
  size_t length = 0;
  for (char c : name) {
    if (c == '.') {
      if (length == 0) return false;
      length = 0;
      continue;
    }
    bool allowed = isAlphanumeric(c) || c == '_' || (c == '-' && length > 0);
    if (!allowed || ++length > kLongestLabel) return false;
  }
  return length > 0;
}

// 6 characters, a dot, 16 characters of [0-9a-z].
bool isToken(kj::StringPtr token) {
  if (token.size() != 23 || token[6] != '.') return false;
  for (size_t i = 0; i < token.size(); ++i) {
    bool allowed = (token[i] >= 'a' && token[i] <= 'z') || (token[i] >= '0' && token[i] <= '9');
    if (i != 6 && !allowed) return false;
  }
  return true;
}

// The semantic checks of one document.
class Checker {
 public:
  Checker(const codec::Places& places, kj::StringPtr file, Problems& problems)
      : places(places), file(file), problems(problems) {}

  void check(Config::Reader config) {
    auto version = config.getVersion();
    if (version.size() > 0 && version != "v1alpha1") {
      warn("version", kj::str("\"", version, "\" is read as v1alpha1"));
    }
    if (config.hasMachine()) checkMachine(config.getMachine());
    if (config.hasCluster()) checkCluster(config.getCluster(), config.getMachine().getType());
  }

  void error(kj::StringPtr path, kj::String message, kj::StringPtr hint = "") {
    report(Problem::Severity::kError, path, kj::mv(message), hint);
  }
  void warn(kj::StringPtr path, kj::String message, kj::StringPtr hint = "") {
    report(Problem::Severity::kWarning, path, kj::mv(message), hint);
  }

 private:
  const codec::Places& places;
  kj::StringPtr file;
  Problems& problems;

  void report(Problem::Severity severity, kj::StringPtr path, kj::String message,
              kj::StringPtr hint) {
    auto place = places.find(path);
    auto& problem = problems.add();
    problem.severity = severity;
    problem.file = kj::str(file);
    problem.line = place.line;
    problem.column = place.column;
    problem.path = kj::str(path);
    problem.message = kj::mv(message);
    problem.hint = kj::str(hint);
  }

  void checkMachine(Machine::Reader machine) {
    if (!places.has("machine.type")) {
      warn("machine.type", kj::str("this key is missing; the machine will be a worker"));
    }
    checkToken("machine.token", machine.getToken());
    checkPair("machine.ca", machine.getCa(), isControlPlane(machine.getType()));
    if (isControlPlane(machine.getType()) && !machine.hasCa()) {
      error("machine.ca",
            kj::str("a control-plane machine needs the certificate authority of the machine API"));
    }
    checkNames("machine.certSANs", machine.getCertSANs());
    if (machine.hasNetwork()) checkNetwork(machine.getNetwork());
    for (auto mirror : machine.getRegistries().getMirrors()) {
      size_t i = 0;
      for (auto url : mirror.getValue().getEndpoints()) {
        auto path =
            kj::str("machine.registries.mirrors.", mirror.getKey(), ".endpoints[", i++, "]");
        auto result = parseEndpoint(url);
        if (result.problem.size() > 0) error(path, kj::mv(result.problem));
      }
    }
  }

  void checkNetwork(Network::Reader network) {
    auto hostname = network.getHostname();
    if (hostname.size() > 0 && !isDnsName(hostname)) {
      error("machine.network.hostname", kj::str("\"", hostname, "\" is not a host name"),
            "labels of at most 63 letters, digits and dashes, 253 characters in all");
    }
    size_t i = 0;
    for (auto nameserver : network.getNameservers()) {
      auto path = kj::str("machine.network.nameservers[", i++, "]");
      if (Ip::parse(nameserver) == nullptr)
        error(path, kj::str("\"", nameserver, "\" is not an IP address"));
    }
    if (network.getNameservers().size() > 3) {
      warn("machine.network.nameservers", kj::str("only the first three are used"));
    }
    i = 0;
    for (auto interface : network.getInterfaces()) {
      auto path = kj::str("machine.network.interfaces[", i++, "]");
      if (!interface.getIgnore()) checkInterface(path, interface);
    }
  }

  void checkInterface(kj::StringPtr path, Interface::Reader interface) {
    if (interface.getInterface().size() == 0) {
      error(kj::str(path, ".interface"), kj::str("the name of the link is missing"));
    }
    if (interface.getDhcp() && interface.getCidr().size() > 0) {
      error(kj::str(path, ".dhcp"), kj::str("cidr is set as well"), "remove one of the two");
    }
    if (interface.getCidr().size() > 0) checkCidr(kj::str(path, ".cidr"), interface.getCidr());
    size_t i = 0;
    for (auto address : interface.getAddresses()) {
      auto place = kj::str(path, ".addresses[", i++, "]");
      if (Ip::parse(address) == nullptr) checkCidr(place, address);
    }
    auto mtu = interface.getMtu();
    if (mtu != 0 && (mtu < kSmallestMtu || mtu > kLargestMtu)) {
      warn(kj::str(path, ".mtu"), kj::str("no link has an MTU of ", mtu), "it is from 68 to 65536");
    }
    i = 0;
    for (auto route : interface.getRoutes()) checkRoute(kj::str(path, ".routes[", i++, "]"), route);
  }

  void checkRoute(kj::StringPtr path, Route::Reader route) {
    int family = AF_UNSPEC;
    KJ_IF_MAYBE (network, Prefix::parse(route.getNetwork())) {
      family = network->address.family();
    } else {
      warn(kj::str(path, ".network"),
           kj::str("\"", route.getNetwork(), "\" is no network; the route is left out"),
           "address/length, as 10.0.0.0/8; 0.0.0.0/0 is the default route");
    }
    if (route.getGateway().size() == 0) return;
    KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) {
      if (family != AF_UNSPEC && gateway->family() != family) {
        warn(kj::str(path, ".gateway"),
             kj::str("gateway and network are not both IPv4 or both IPv6"));
      }
    } else {
      warn(kj::str(path, ".gateway"), kj::str("\"", route.getGateway(), "\" is not an IP address"));
    }
  }

  void checkCluster(Cluster::Reader cluster, MachineType type) {
    checkToken("cluster.token", cluster.getToken());
    auto endpoint = cluster.getControlPlane().getEndpoint();
    if (endpoint.size() > 0) {
      auto result = parseEndpoint(endpoint);
      if (result.problem.size() > 0) {
        error("cluster.controlPlane.endpoint", kj::mv(result.problem),
              "https://host:port, as https://10.5.0.2:6443");
      } else if (result.value.scheme != "https") {
        warn("cluster.controlPlane.endpoint",
             kj::str("the Kubernetes API is served by https only"));
      }
    } else if (places.has("cluster.controlPlane.endpoint")) {
      error("cluster.controlPlane.endpoint", kj::str("the URL is empty"),
            "https://host:port, as https://10.5.0.2:6443");
    }
    if (cluster.getControlPlane().getLocalAPIServerPort() == 0) {
      error("cluster.controlPlane.localAPIServerPort", kj::str("0 is not a port"));
    }
    if (cluster.hasNetwork()) checkClusterNetwork(cluster.getNetwork());
    checkEncryptionSecret(cluster.getAescbcEncryptionSecret());
    checkClusterSecrets(cluster, isControlPlane(type));
    checkNames("cluster.apiServer.certSANs", cluster.getApiServer().getCertSANs());
  }

  void checkClusterNetwork(ClusterNetwork::Reader network) {
    if (!isDnsName(network.getDnsDomain())) {
      error("cluster.network.dnsDomain",
            kj::str("\"", network.getDnsDomain(), "\" is not a DNS name"),
            "cluster.local is the usual one");
    }
    size_t i = 0;
    for (auto subnet : network.getPodSubnets())
      checkCidr(kj::str("cluster.network.podSubnets[", i++, "]"), subnet);
    i = 0;
    for (auto subnet : network.getServiceSubnets()) {
      checkCidr(kj::str("cluster.network.serviceSubnets[", i++, "]"), subnet);
    }
  }

  void checkClusterSecrets(Cluster::Reader cluster, bool controlPlane) {
    checkPair("cluster.ca", cluster.getCa(), controlPlane);
    checkPair("cluster.aggregatorCA", cluster.getAggregatorCA(), controlPlane);
    checkPair("cluster.etcd.ca", cluster.getEtcd().getCa(), controlPlane);
    if (!controlPlane) return;
    auto need = [&](kj::StringPtr path, bool present) {
      if (!present) warn(path, kj::str("the Kubernetes control plane cannot start without it"));
    };
    need("cluster.ca", cluster.hasCa());
    need("cluster.aggregatorCA", cluster.hasAggregatorCA());
    need("cluster.etcd.ca", cluster.getEtcd().hasCa());
    need("cluster.serviceAccount.key", cluster.getServiceAccount().getKey().size() > 0);
  }

  // The value is a secret: messages do not repeat it.
  void checkToken(kj::StringPtr path, kj::StringPtr token) {
    if (token.size() == 0) {
      warn(path, kj::str("there is no token"));
    } else if (!isToken(token)) {
      error(path, kj::str("this is not a token"),
            "6 characters, a dot and 16 characters of a-z and 0-9");
    }
  }

  void checkEncryptionSecret(kj::StringPtr secret) {
    if (secret.size() == 0) return;
    auto decoded = kj::decodeBase64(secret);
    KJ_DEFER(zeroize(decoded.asChars()));
    if (decoded.hadErrors || decoded.size() != kEncryptionKeyBytes) {
      error("cluster.aescbcEncryptionSecret", kj::str("this is not the base64 of 32 octets"),
            "head -c 32 /dev/urandom | base64 makes one");
    }
  }

  void checkPair(kj::StringPtr path, CertificateAndKey::Reader pair, bool needsKey) {
    if (pair.getCrt().size() == 0) {
      if (pair.getKey().size() > 0)
        error(kj::str(path, ".crt"), kj::str("there is a key but no certificate"));
      return;
    }
    auto certificate = kj::heapString(pair.getCrt().asChars());
    auto thrown = kj::runCatchingExceptions([&]() {
      if (!pki::inspect(certificate).authority) {
        error(kj::str(path, ".crt"),
              kj::str("this certificate is not one of an authority (CA:true)"));
      }
    });
    KJ_IF_MAYBE (e, thrown) {
      error(kj::str(path, ".crt"), messageOf(*e), "the base64 of a certificate in PEM");
      return;
    }
    if (pair.getKey().size() == 0) {
      if (needsKey)
        error(kj::str(path, ".key"), kj::str("a control-plane machine needs the key too"));
      return;
    }
    pki::Pem key(kj::heapString(pair.getKey().asChars()));
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::checkPair(certificate, key); })) {
      error(kj::str(path, ".key"), messageOf(*e));
    }
  }

  void checkNames(kj::StringPtr path, capnp::List<capnp::Text>::Reader names) {
    size_t i = 0;
    for (auto name : names) {
      auto place = kj::str(path, "[", i++, "]");
      bool wildcard = name.size() > 2 && name[0] == '*' && name[1] == '.';
      if (Ip::parse(name) == nullptr &&
          !isDnsName(wildcard ? name.slice(2) : kj::StringPtr(name))) {
        error(place, kj::str("\"", name, "\" is neither an IP address nor a DNS name"));
      }
    }
  }

  void checkCidr(kj::StringPtr path, kj::StringPtr text) {
    if (Prefix::parse(text) != nullptr) return;
    bool address = Ip::parse(text) != nullptr;
    error(path, kj::str("\"", text, "\" is not an address with a prefix length"),
          address ? kj::str("as ", text, text.findFirst(':') == nullptr ? "/24" : "/64")
                  : kj::str("as 10.5.0.2/24"));
  }
};

kj::Maybe<const codec::YamlNode&> findMachineConfig(const codec::YamlStream& stream) {
  for (auto* document : stream.documents()) {
    for (auto& entry : document->entries) {
      if (entry.key == "machine") return *document;
    }
  }
  return nullptr;
}

}  // namespace

MachineConfig::~MachineConfig() noexcept(false) {
  zeroize(source);
  if (message.get() == nullptr) return;
  for (auto segment : message->getSegmentsForOutput()) {
    auto bytes = segment.asBytes();
    zeroize(kj::arrayPtr(const_cast<char*>(reinterpret_cast<const char*>(bytes.begin())),
                         bytes.size()));
  }
}

MachineConfig parse(kj::ArrayPtr<const char> bytes, kj::StringPtr file) {
  MachineConfig config;
  config.source = kj::heapArray(bytes);
  config.message = kj::heap<capnp::MallocMessageBuilder>();
  auto root = config.message->initRoot<Config>();
  config.view = root.asReader();

  codec::YamlStream stream(config.source, file, config.found);
  if (hasErrors(config.found)) return config;
  auto complain = [&](codec::Place place, kj::StringPtr message, kj::StringPtr hint = "") {
    Problem& problem = config.found.add();
    problem.file = kj::str(file);
    problem.line = place.line;
    problem.column = place.column;
    problem.message = kj::str(message);
    problem.hint = kj::str(hint);
  };
  if (stream.documents().size() == 0) {
    config.nothing = true;
    complain({}, "there is no machine config: the document is empty");
    return config;
  }
  KJ_IF_MAYBE (document, findMachineConfig(stream)) {
    for (auto* other : stream.documents()) {
      bool another = false;
      for (auto& entry : other->entries) another = another || entry.key == "machine";
      if (!another)
        complain(other->place, "this document has no key \"machine\" and no kind that is known");
    }
    codec::ReadOptions options{.file = file, .unknownKeysAreWarnings = true};
    codec::readNode(stream, *document, root, config.found, options, &config.where);
    Checker(config.where, file, config.found).check(root.asReader());
  } else {
    auto* first = stream.documents()[0];
    if (first->kind == codec::YamlNode::Kind::kMapping) {
      complain(first->place, "this is not a machine config: the key \"machine\" is missing",
               "talosctl gen config writes complete ones");
    } else {
      complain(first->place,
               "this is not a machine config: a mapping (\"key: value\" lines) is expected");
    }
  }
  return config;
}

kj::Maybe<Mode> modeNamed(kj::StringPtr name) {
  if (name == "metal") return Mode::kMetal;
  if (name == "cloud") return Mode::kCloud;
  if (name == "container") return Mode::kContainer;
  return nullptr;
}

void checkMode(const MachineConfig& config, Mode mode, kj::StringPtr file, Problems& problems) {
  if (mode != Mode::kMetal) return;
  Checker checker(config.places(), file, problems);
  auto machine = config.get().getMachine();
  if (!machine.hasInstall()) {
    checker.error("machine.install",
                  kj::str("a machine of metal needs to know where to install to"),
                  "install: {disk: /dev/sda}");
  } else if (machine.getInstall().getDisk().size() == 0) {
    checker.error("machine.install.disk", kj::str("the disk to install to is missing"),
                  "as /dev/sda");
  }
}

}  // namespace talos::config
