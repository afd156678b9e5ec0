#include "common/config/documents.h"

#include <algorithm>

#include "common/config/config-check.h"
#include "common/config/config.h"
#include "common/config/document-reader.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

using codec::YamlNode;

struct DocumentKind {
  kj::StringPtr name;
  bool named;  // there may be several, with different names
  bool link;   // describes a link, so that DHCP is only where a document says so
  void (DocumentReader::*read)(Document&);
};
constexpr DocumentKind kKinds[] = {
    {"BondConfig"_kj, true, true, &DocumentReader::bond},
    {"BridgeConfig"_kj, true, true, &DocumentReader::bridge},
    {"DHCPv4Config"_kj, true, true, &DocumentReader::dhcp4},
    {"DHCPv6Config"_kj, true, true, &DocumentReader::dhcp6},
    {"DummyLinkConfig"_kj, true, true, &DocumentReader::dummy},
    {"EnvironmentConfig"_kj, false, false, &DocumentReader::environment},
    {"HostnameConfig"_kj, false, false, &DocumentReader::hostname},
    {"KmsgLogConfig"_kj, true, false, &DocumentReader::kernelLog},
    {"Layer2VIPConfig"_kj, true, false, &DocumentReader::sharedAddress},
    {"LinkAliasConfig"_kj, true, false, &DocumentReader::alias},
    {"LinkConfig"_kj, true, true, &DocumentReader::link},
    {"RegistryAuthConfig"_kj, true, false, &DocumentReader::registryAuth},
    {"RegistryMirrorConfig"_kj, true, false, &DocumentReader::mirror},
    {"RegistryTLSConfig"_kj, true, false, &DocumentReader::registryTls},
    {"ResolverConfig"_kj, false, false, &DocumentReader::resolver},
    {"StaticHostConfig"_kj, true, false, &DocumentReader::staticHost},
    {"TimeSyncConfig"_kj, false, false, &DocumentReader::timeSync},
    {"VLANConfig"_kj, true, true, &DocumentReader::vlan},
    {"WatchdogTimerConfig"_kj, false, false, &DocumentReader::watchdog},
    {"WireguardConfig"_kj, true, true, &DocumentReader::wireguard},
};

const DocumentKind* kindCalled(kj::StringPtr name) {
  for (auto& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

// Returns the text of a scalar at a key; empty if there is none.
kj::StringPtr textAt(const YamlNode& document, kj::StringPtr key) {
  for (auto& entry : document.entries) {
    if (entry.key == key && entry.value->kind == YamlNode::Kind::kScalar) return entry.value->text;
  }
  return "";
}

bool isAtOrBelow(kj::StringPtr path, kj::StringPtr above) {
  if (!path.startsWith(above)) return false;
  return path.size() == above.size() || path[above.size()] == '.' || path[above.size()] == '[';
}

}  // namespace

kj::ArrayPtr<const kj::StringPtr> documentKinds() {
  static const auto names = [] {
    kj::Vector<kj::StringPtr> all;
    for (auto& kind : kKinds) all.add(kind.name);
    return all.releaseAsArray();
  }();
  return names;
}

void Origins::add(kj::StringPtr inView, kj::StringPtr inDocument) {
  origins.add(Origin{kj::str(inView), kj::str(inDocument)});
}

void Origins::rename(Problem& problem) const {
  const Origin* best = nullptr;
  for (auto& origin : origins) {
    if (!isAtOrBelow(problem.path, origin.inView)) continue;
    if (best == nullptr || origin.inView.size() > best->inView.size()) best = &origin;
  }
  if (best == nullptr) return;
  problem.path = kj::str(best->inDocument, problem.path.slice(best->inView.size()));
}

bool isInDocument(kj::StringPtr path) {
  return path.size() > 0 && path[0] >= 'A' && path[0] <= 'Z';
}

DocumentReader::DocumentReader(const codec::YamlStream& stream, kj::StringPtr file,
                               Config::Builder view, codec::Places& where, Origins& origins,
                               Problems& problems)
    : stream(stream),
      file(file),
      view(view),
      where(where),
      origins(origins),
      problems(problems),
      interfaces(view.asReader().getMachine().getNetwork().getInterfaces().size()),
      hosts(view.asReader().getMachine().getNetwork().getExtraHostEntries().size()),
      aliases(0),
      destinations(view.asReader().getMachine().getLogging().getDestinations().size()) {}

void DocumentReader::add(Problem problem) {
  if (counts[static_cast<int>(problem.severity)]++ >= codec::kMaxProblems) return;
  problems.add(kj::mv(problem));
}

void DocumentReader::report(const Document& document, kj::StringPtr key, kj::String message,
                            kj::StringPtr hint, Problem::Severity severity) {
  Problem problem;
  problem.severity = severity;
  problem.file = kj::str(file);
  auto place = document.places.find(key);
  if (place.line == 0) place = document.node.place;
  problem.line = place.line;
  problem.column = place.column;
  problem.path = key.size() == 0 ? kj::str(document.label) : kj::str(document.label, ".", key);
  problem.message = kj::mv(message);
  problem.hint = kj::str(hint);
  add(kj::mv(problem));
}

void DocumentReader::refuse(const Document& document, kj::StringPtr key, kj::StringPtr reason,
                            kj::StringPtr hint) {
  if (document.places.has(key)) report(document, key, kj::str(reason), hint);
}

void DocumentReader::from(const Document& document, kj::StringPtr key, kj::StringPtr inView) {
  auto place = key.size() == 0 ? document.node.place : document.places.find(key);
  if (place.line == 0) place = document.node.place;
  auto path = key.size() == 0 ? kj::str(document.label) : kj::str(document.label, ".", key);
  values.add(Value{kj::str(inView), kj::mv(path), place});
}

bool DocumentReader::decode(Document& document, capnp::DynamicStruct::Builder target) {
  Problems found;
  bool good =
      codec::readNode(stream, document.node, target, found, {.file = file}, &document.places);
  for (auto& problem : found) {
    problem.path = problem.path.size() == 0 ? kj::str(document.label)
                                            : kj::str(document.label, ".", problem.path);
    add(kj::mv(problem));
  }
  return good;
}

void DocumentReader::read(const YamlNode& node, kj::StringPtr name) {
  auto& kind = *kindCalled(name);
  auto own = textAt(node, "name");
  Document document{
      node, kind.name,
      kind.named && own.size() > 0 ? kj::str(kind.name, "[", own, "]") : kj::str(kind.name)};
  if (textAt(node, "apiVersion") != "v1alpha1") {
    return report(document, "apiVersion", kj::str("the document is not of version v1alpha1"),
                  "use apiVersion: v1alpha1");
  }
  if (!seen.insert(document.label.cStr()).second) {
    return report(document, "", kj::str("there is another such document"),
                  kind.named ? "give it another name, or merge the two" : "merge the two");
  }
  auto errors = counts[0];
  size_t before[] = {interfaces.size(), hosts.size(), aliases.size(), destinations.size()};
  values.clear();
  (this->*kind.read)(document);
  if (counts[0] > errors) {
    interfaces.keepFirst(before[0]);
    hosts.keepFirst(before[1]);
    aliases.keepFirst(before[2]);
    destinations.keepFirst(before[3]);
    return;
  }
  if (kind.link) network().setOnlyConfigured(true);
  kinds.insert(kind.name.cStr());
  for (auto& value : values) {
    where.add(value.inView, value.place);
    origins.add(value.inView, value.inDocument);
  }
}

void DocumentReader::finish() {
  auto write = [](auto& additions, auto old, auto init) {
    if (additions.size() == 0) return;
    // A copy, because the list is written in the place of the old one.
    capnp::MallocMessageBuilder copy;
    copy.setRoot(old);
    using List = decltype(old);
    additions.write(copy.getRoot<capnp::FromReader<List>>().asReader(),
                    init(static_cast<unsigned>(old.size() + additions.size())));
    zeroize(copy);
  };
  auto old = view.asReader().getMachine().getNetwork();
  write(interfaces, old.getInterfaces(), [&](unsigned n) { return network().initInterfaces(n); });
  write(hosts, old.getExtraHostEntries(),
        [&](unsigned n) { return network().initExtraHostEntries(n); });
  write(aliases, old.getLinkAliases(), [&](unsigned n) { return network().initLinkAliases(n); });
  write(destinations, view.asReader().getMachine().getLogging().getDestinations(),
        [&](unsigned n) { return view.getMachine().getLogging().initDestinations(n); });
  finishRegistries();
  finishVariables();
  if (kinds.empty()) return;
  auto list = view.initDocuments(static_cast<unsigned>(kinds.size()));
  unsigned i = 0;
  for (auto& kind : kinds) list.set(i++, kind);
}

// --- kinds with one value for the node
// -----------------------------------------------------------------
void DocumentReader::hostname(Document& document) {
  KJ_IF_MAYBE (d, decode<document::HostnameConfig>(document)) {
    auto name = d->getHostname();
    auto automatic = d->getAuto();
    if (automatic.size() > 0 && automatic != "off" && automatic != "stable") {
      return report(document, "auto", kj::str(jsonString(automatic), " is not valid"),
                    "use stable or off");
    }
    if (name.size() == 0) {
      if (automatic.size() == 0) {
        return report(document, "", kj::str("it has neither hostname nor auto"), "set hostname");
      }
      return report(document, "auto",
                    kj::str("this has no effect: a node without a host name is named after its "
                            "first address"),
                    "set hostname", Problem::Severity::kWarning);
    }
    if (automatic == "stable") {
      return report(document, "auto", kj::str("hostname is set as well"), "remove one of the two");
    }
    if (network().getHostname().size() > 0) {
      return report(document, "hostname", kj::str("machine.network.hostname is set as well"),
                    "remove one of the two");
    }
    network().setHostname(name);
    from(document, "hostname", "machine.network.hostname");
  }
}

void DocumentReader::resolver(Document& document) {
  KJ_IF_MAYBE (d, decode<document::ResolverConfig>(document)) {
    auto errors = counts[0];
    auto list = d->getNameservers();
    for (auto i : kj::indices(list)) {
      auto key = kj::str("nameservers[", i, "]");
      auto protocol = list[i].getProtocol();
      if (protocol.size() > 0 && protocol != "Do53") {
        report(document, kj::str(key, ".protocol"),
               kj::str("this system sends queries by Do53 only, without encryption"), "remove it");
      }
      refuse(document, kj::str(key, ".tlsServerName"), "this is for encrypted queries only",
             "remove it");
    }
    auto old = network().asReader();
    if (list.size() > 0 && old.getNameservers().size() > 0) {
      report(document, "nameservers", kj::str("machine.network.nameservers is set as well"),
             "remove one of the two");
    }
    if (d->hasSearchDomains() && (old.hasSearchDomains() || old.getDisableSearchDomain())) {
      report(document, "searchDomains",
             kj::str("machine.network has search domains, or disableSearchDomain, as well"),
             "remove one of the two");
    }
    if (counts[0] > errors) return;
    if (list.size() > 0) {
      auto out = network().initNameservers(list.size());
      for (auto i : kj::indices(list)) {
        out.set(i, list[i].getAddress());
        from(document, kj::str("nameservers[", i, "].address"),
             kj::str("machine.network.nameservers[", i, "]"));
      }
      from(document, "nameservers", "machine.network.nameservers");
    }
    if (!d->hasSearchDomains()) return;
    if (d->getSearchDomains().hasDomains()) {
      network().setSearchDomains(d->getSearchDomains().getDomains());
      from(document, "searchDomains.domains", "machine.network.searchDomains");
    }
    network().setDisableSearchDomain(d->getSearchDomains().getDisableDefault());
  }
}

void DocumentReader::timeSync(Document& document) {
  KJ_IF_MAYBE (d, decode<document::TimeSyncConfig>(document)) {
    auto errors = counts[0];
    refuse(document, "ptp", "this system synchronises its clock by NTP only", "use ntp.servers");
    if (d->getNtp().getUseNTS()) {
      report(document, "ntp.useNTS", kj::str("this system does not know NTS"), "remove it");
    }
    auto old = view.asReader().getMachine().getTime();
    if (old.getDisabled() || old.getServers().size() > 0) {
      report(document, "", kj::str("machine.time is set as well"), "remove one of the two");
    }
    if (counts[0] > errors) return;
    auto time = view.getMachine().getTime();
    time.setDisabled(!d->getEnabled());
    auto servers = d->getNtp().getServers();
    if (servers.size() == 0) return;
    time.setServers(servers);
    from(document, "ntp.servers", "machine.time.servers");
  }
}

void DocumentReader::staticHost(Document& document) {
  KJ_IF_MAYBE (d, decode<document::StaticHostConfig>(document)) {
    if (d->getHostnames().size() == 0) {
      return report(document, "hostnames", kj::str("there are no names"), "add one");
    }
    kj::String path;
    auto entry = hosts.add("machine.network.extraHostEntries", path);
    entry.setIp(d->getName());
    entry.setAliases(d->getHostnames());
    from(document, "", path);
    from(document, "name", kj::str(path, ".ip"));
    from(document, "hostnames", kj::str(path, ".aliases"));
  }
}

void DocumentReader::kernelLog(Document& document) {
  KJ_IF_MAYBE (d, decode<document::KmsgLogConfig>(document)) {
    auto url = kj::str(d->getUrl());
    if (!url.startsWith("tcp://") && !url.startsWith("udp://")) {
      return report(document, "url", kj::str("not a URL of tcp or udp"),
                    "for example tcp://192.0.2.7:3001");
    }
    if (url.endsWith("/")) url = kj::heapString(url.slice(0, url.size() - 1));
    kj::String path;
    auto destination = destinations.add("machine.logging.destinations", path);
    destination.setEndpoint(url);
    destination.initStreams(1).set(0, LogStream::KERNEL);
    from(document, "", path);
    from(document, "url", kj::str(path, ".endpoint"));
  }
}

void DocumentReader::watchdog(Document& document) {
  KJ_IF_MAYBE (d, decode<document::WatchdogTimerConfig>(document)) {
    if (view.getMachine().hasWatchdog()) {
      return report(document, "", kj::str("machine.watchdog is set as well"),
                    "remove one of the two");
    }
    auto out = view.getMachine().initWatchdog();
    out.setDevice(d->getDevice());
    if (d->getTimeout().size() > 0) out.setTimeout(d->getTimeout());
    from(document, "", "machine.watchdog");
  }
}

void DocumentReader::environment(Document& document) {
  KJ_IF_MAYBE (d, decode<document::EnvironmentConfig>(document)) {
    for (auto variable : d->getVariables()) {
      variables[variable.getKey().cStr()] = variable.getValue().cStr();
      from(document, keyPath("variables", variable.getKey()),
           keyPath("machine.env", variable.getKey()));
    }
  }
}

void DocumentReader::finishVariables() {
  if (variables.empty()) return;
  std::map<std::string, std::string> all;
  for (auto old : view.asReader().getMachine().getEnv())
    all[old.getKey().cStr()] = old.getValue().cStr();
  for (auto& [name, value] : variables) all[name] = value;
  auto out = view.getMachine().initEnv(static_cast<unsigned>(all.size()));
  unsigned i = 0;
  for (auto& [name, value] : all) {
    out[i].setKey(name.c_str());
    out[i++].setValue(value.c_str());
    zeroize(kj::arrayPtr(value.data(), value.size()));
  }
  for (auto& [name, value] : variables) zeroize(kj::arrayPtr(value.data(), value.size()));
}

// --- registries
// ----------------------------------------------------------------------------------------
void DocumentReader::mirror(Document& document) {
  KJ_IF_MAYBE (d, decode<document::RegistryMirrorConfig>(document)) {
    auto endpoints = d->getEndpoints();
    for (auto i : kj::indices(endpoints)) {
      if (endpoints[i].getOverridePath() == endpoints[0].getOverridePath()) continue;
      return report(document, kj::str("endpoints[", i, "].overridePath"),
                    kj::str("the endpoints of one registry must have the same overridePath"),
                    "write the whole path into each URL");
    }
    auto item = scratch.getOrphanage().newOrphan<Registries::Mirror>();
    auto out = item.get().initValue();
    item.get().setKey(d->getName());
    auto urls = out.initEndpoints(endpoints.size());
    auto path = keyPath("machine.registries.mirrors", d->getName());
    for (auto i : kj::indices(endpoints)) {
      urls.set(i, endpoints[i].getUrl());
      from(document, kj::str("endpoints[", i, "].url"), kj::str(path, ".endpoints[", i, "]"));
    }
    if (endpoints.size() > 0) out.setOverridePath(endpoints[0].getOverridePath());
    out.setSkipFallback(d->getSkipFallback());
    from(document, "", path);
    mirrors.insert_or_assign(d->getName().cStr(), kj::mv(item));
  }
}

Registries::RegistryEntry::Builder DocumentReader::registry(kj::StringPtr host) {
  if (registries.empty()) {
    for (auto old : view.asReader().getMachine().getRegistries().getConfig()) {
      registries.emplace(old.getKey().cStr(), scratch.getOrphanage().newOrphanCopy(old));
    }
  }
  auto found = registries.find(host.cStr());
  if (found != registries.end()) return found->second.get();
  auto item = scratch.getOrphanage().newOrphan<Registries::RegistryEntry>();
  item.get().setKey(host);
  return registries.emplace(host.cStr(), kj::mv(item)).first->second.get();
}

void DocumentReader::registryAuth(Document& document) {
  KJ_IF_MAYBE (d, decode<document::RegistryAuthConfig>(document)) {
    auto out = registry(d->getName()).getValue().initAuth();
    out.setUsername(d->getUsername());
    out.setPassword(d->getPassword());
    out.setAuth(d->getAuth());
    out.setIdentityToken(d->getIdentityToken());
    from(document, "", kj::str(keyPath("machine.registries.config", d->getName()), ".auth"));
  }
}

void DocumentReader::registryTls(Document& document) {
  KJ_IF_MAYBE (d, decode<document::RegistryTLSConfig>(document)) {
    auto out = registry(d->getName()).getValue().initTls();
    if (d->getCa().size() > 0) out.setCa(d->getCa().asBytes());
    if (d->hasClientIdentity()) {
      auto identity = out.initClientIdentity();
      identity.setCrt(d->getClientIdentity().getCert().asBytes());
      identity.setKey(d->getClientIdentity().getKey().asBytes());
    }
    out.setInsecureSkipVerify(d->getInsecureSkipVerify());
    auto path = kj::str(keyPath("machine.registries.config", d->getName()), ".tls");
    from(document, "", path);
    from(document, "clientIdentity.cert", kj::str(path, ".clientIdentity.crt"));
  }
}

void DocumentReader::finishRegistries() {
  // Writes the old items that no document replaces, and then those of documents.
  auto write = [&](auto old, auto& added, auto init) {
    if (added.empty()) return;
    capnp::MallocMessageBuilder copy;
    copy.setRoot(old);
    auto kept = copy.getRoot<capnp::FromReader<decltype(old)>>().asReader();
    unsigned count = 0;
    for (auto item : kept) count += added.count(item.getKey().cStr()) == 0;
    auto out = init(count + static_cast<unsigned>(added.size()));
    unsigned i = 0;
    for (auto item : kept) {
      if (added.count(item.getKey().cStr()) == 0) out.setWithCaveats(i++, item);
    }
    for (auto& [name, item] : added) out.setWithCaveats(i++, item.getReader());
    zeroize(copy);
  };
  auto old = view.asReader().getMachine().getRegistries();
  write(old.getMirrors(), mirrors,
        [&](unsigned n) { return view.getMachine().getRegistries().initMirrors(n); });
  write(old.getConfig(), registries,
        [&](unsigned n) { return view.getMachine().getRegistries().initConfig(n); });
}

void readDocuments(const codec::YamlStream& stream, const YamlNode& main, kj::StringPtr file,
                   Config::Builder view, codec::Places& where, Origins& origins,
                   Problems& problems) {
  DocumentReader reader(stream, file, view, where, origins, problems);
  for (auto* document : stream.documents()) {
    if (document == &main) continue;
    auto kind = textAt(*document, "kind");
    if (kindCalled(kind) != nullptr) reader.read(*document, kind);
  }
  reader.finish();
}

}  // namespace talos::config
