// Documents of the node: names, time, registries, logs, variables, the watchdog, trusted CAs, files
// in /etc, the balancer of API servers.

#include <string_view>

#include "common/base/error.h"
#include "common/cel/volume-selectors.h"
#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

// A file in /etc, or with / at its end a folder, that the system or another document writes.
struct OwnFile {
  kj::StringPtr name, instead;
};
constexpr OwnFile kOwnFiles[] = {
    {"ca-certificates/"_kj, "use a TrustedRootsConfig document"_kj},
    {"cni/"_kj, "use a DaemonSet, as network plugins do"_kj},
    {"cri/"_kj, "use a CRICustomizationConfig document"_kj},
    {"extensions.yaml"_kj, "use another name"_kj},
    {"hostname"_kj, "use a HostnameConfig document"_kj},
    {"hosts"_kj, "use a StaticHostConfig document"_kj},
    {"kubernetes/"_kj, "use a KubeStaticPodConfig document for a static pod"_kj},
    {"localtime"_kj, "use another name"_kj},
    {"machine-id"_kj, "use another name"_kj},
    {"os-release"_kj, "use another name"_kj},
    {"resolv.conf"_kj, "use a ResolverConfig document"_kj},
    {"ssl/certs/"_kj, "use a TrustedRootsConfig document"_kj},
    {"xattr.conf"_kj, "use another name"_kj},
};

kj::Maybe<const OwnFile&> ownFile(kj::StringPtr name) {
  for (auto& own : kOwnFiles) {
    if (own.name.endsWith("/") ? name.startsWith(own.name) : name == own.name) return own;
  }
  return nullptr;
}

size_t countOf(std::string_view part, std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

// Checks host DNS of a ResolverConfig; `alsoOld` if the main document has it, too.
void checkHostDns(DocumentDecoder& decoder, const Document& document,
                  document::ResolverConfig::HostDns::Reader dns, bool alsoOld) {
  auto needsEnabled = [&](kj::StringPtr key, bool set) {
    if (!set || dns.getEnabled()) return;
    decoder.report(document, kj::str("hostDNS.", key), kj::str("hostDNS.enabled is not set"),
                   "set it to true");
  };
  needsEnabled("forwardKubeDNSToHost", dns.getForwardKubeDNSToHost());
  needsEnabled("resolveMemberNames", dns.getResolveMemberNames());
  if (dns.getEnabled() && alsoOld) {
    decoder.report(document, "hostDNS", kj::str("machine.features.hostDNS is set as well"),
                   "remove one of the two");
  }
}

}  // namespace

kj::Maybe<kj::String> certificatesMistake(kj::StringPtr text,
                                          kj::ArrayPtr<const kj::String> found) {
  if (countOf("-----BEGIN CERTIFICATE-----", {text.begin(), text.size()}) > found.size()) {
    return kj::str("a certificate has no end");
  }
  if (found.size() == 0) return kj::str("there is no certificate");
  for (auto i : kj::indices(found)) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { pki::inspect(found[i]); })) {
      return kj::str("certificate ", i + 1, ": ", messageOf(*e));
    }
  }
  return nullptr;
}

NodeDocuments::NodeDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      hosts(view.asReader().getMachine().getNetwork().getExtraHostEntries().size()),
      destinations(view.asReader().getMachine().getLogging().getDestinations().size()),
      roots(view.asReader().getMachine().getTrustedRoots().size()),
      files(view.asReader().getMachine().getFiles().size()) {}

void NodeDocuments::dropSince(Mark mark) {
  hosts.keepFirst(mark.hosts);
  destinations.keepFirst(mark.destinations);
  roots.keepFirst(mark.roots);
  files.keepFirst(mark.files);
}

void NodeDocuments::write() {
  auto machine = view.asReader().getMachine();
  hosts.write(machine.getNetwork().getExtraHostEntries(),
              [&](unsigned size) { return network().initExtraHostEntries(size); });
  destinations.write(machine.getLogging().getDestinations(), [&](unsigned size) {
    return view.getMachine().getLogging().initDestinations(size);
  });
  roots.write(machine.getTrustedRoots(),
              [&](unsigned size) { return view.getMachine().initTrustedRoots(size); });
  files.write(machine.getFiles(), [&](unsigned size) { return view.getMachine().initFiles(size); });
  writeRegistries();
  writeVariables();
}

void NodeDocuments::hostname(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::HostnameConfig>(document)) {
    auto name = d->getHostname();
    auto automatic = d->getAuto();
    if (automatic.size() > 0 && automatic != "off" && automatic != "stable") {
      return decoder.report(document, "auto", kj::str(jsonString(automatic), " is not valid"),
                            "use stable or off");
    }
    auto features = view.getMachine().getFeatures();
    if (features.asReader().getStableHostname()) {
      // A given name wins over a stable one.
      decoder.conflict(document, kj::str("machine.features.stableHostname is set as well"));
      if (name.size() == 0) return;
    }
    if (name.size() == 0) {
      if (automatic.size() == 0) {
        return decoder.report(document, "", kj::str("it has neither hostname nor auto"),
                              "set hostname");
      }
      if (automatic == "stable") {
        features.setStableHostname(true);
        return decoder.from(document, "auto", "machine.features.stableHostname");
      }
      return decoder.report(
          document, "auto",
          kj::str("this has no effect: a node without a host name is named after its "
                  "first address"),
          "set hostname", Problem::Severity::kWarning);
    }
    if (automatic == "stable") {
      return decoder.report(document, "auto", kj::str("hostname is set as well"),
                            "remove one of the two");
    }
    if (network().getHostname().size() > 0) {
      return decoder.report(document, "hostname",
                            kj::str("machine.network.hostname is set as well"),
                            "remove one of the two");
    }
    network().setHostname(name);
    decoder.from(document, "hostname", "machine.network.hostname");
  }
}

void NodeDocuments::resolver(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::ResolverConfig>(document)) {
    auto errors = decoder.errors();
    auto list = d->getNameservers();
    for (auto i : kj::indices(list)) {
      auto key = kj::str("nameservers[", i, "]");
      auto protocol = list[i].getProtocol();
      if (protocol.size() > 0 && protocol != "Do53") {
        decoder.report(document, kj::str(key, ".protocol"),
                       kj::str("this system sends queries by Do53 only, without encryption"),
                       "remove it");
      }
      decoder.refuse(document, kj::str(key, ".tlsServerName"), "this is for encrypted queries only",
                     "remove it");
    }
    auto old = network().asReader();
    if (list.size() > 0 && old.getNameservers().size() > 0) {
      decoder.report(document, "nameservers", kj::str("machine.network.nameservers is set as well"),
                     "remove one of the two");
    }
    if (d->hasSearchDomains() && (old.hasSearchDomains() || old.getDisableSearchDomain())) {
      decoder.report(document, "searchDomains",
                     kj::str("machine.network has search domains, or disableSearchDomain, as well"),
                     "remove one of the two");
    }
    auto dns = d->getHostDNS();
    checkHostDns(decoder, document, dns, view.asReader().getMachine().getFeatures().hasHostDNS());
    if (decoder.errors() > errors) return;
    if (dns.getEnabled()) {
      auto out = view.getMachine().getFeatures().initHostDNS();
      out.setEnabled(true);
      out.setForwardKubeDNSToHost(dns.getForwardKubeDNSToHost());
      out.setResolveMemberNames(dns.getResolveMemberNames());
      decoder.from(document, "hostDNS", "machine.features.hostDNS");
    }
    if (list.size() > 0) {
      auto out = network().initNameservers(list.size());
      for (auto i : kj::indices(list)) {
        out.set(i, list[i].getAddress());
        decoder.from(document, kj::str("nameservers[", i, "].address"),
                     kj::str("machine.network.nameservers[", i, "]"));
      }
      decoder.from(document, "nameservers", "machine.network.nameservers");
    }
    if (!d->hasSearchDomains()) return;
    if (d->getSearchDomains().hasDomains()) {
      network().setSearchDomains(d->getSearchDomains().getDomains());
      decoder.from(document, "searchDomains.domains", "machine.network.searchDomains");
    }
    network().setDisableSearchDomain(d->getSearchDomains().getDisableDefault());
  }
}

void NodeDocuments::timeSync(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::TimeSyncConfig>(document)) {
    auto errors = decoder.errors();
    decoder.refuse(document, "ptp", "this system synchronises its clock by NTP only",
                   "use ntp.servers");
    if (d->getNtp().getUseNTS()) {
      decoder.report(document, "ntp.useNTS", kj::str("this system does not know NTS"), "remove it");
    }
    auto old = view.asReader().getMachine().getTime();
    if (old.getDisabled() || old.getServers().size() > 0) {
      decoder.report(document, "", kj::str("machine.time is set as well"), "remove one of the two");
    }
    if (decoder.errors() > errors) return;
    bool waits = parseDuration(old.getBootTimeout()).orDefault(0 * kj::SECONDS) > 0 * kj::SECONDS;
    if (waits) decoder.conflict(document, kj::str("machine.time.bootTimeout is set as well"));
    auto time = view.getMachine().getTime();
    time.setDisabled(!d->getEnabled());
    if (d->hasBootTimeout()) {
      time.setBootTimeout(d->getBootTimeout());
      decoder.from(document, "bootTimeout", "machine.time.bootTimeout");
    }
    auto servers = d->getNtp().getServers();
    if (servers.size() == 0) return;
    time.setServers(servers);
    decoder.from(document, "ntp.servers", "machine.time.servers");
  }
}

void NodeDocuments::staticHost(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::StaticHostConfig>(document)) {
    if (d->getHostnames().size() == 0) {
      return decoder.report(document, "hostnames", kj::str("there are no names"), "add one");
    }
    kj::String path;
    auto entry = hosts.add("machine.network.extraHostEntries", path);
    entry.setIp(d->getName());
    entry.setAliases(d->getHostnames());
    decoder.from(document, "", path);
    decoder.from(document, "name", kj::str(path, ".ip"));
    decoder.from(document, "hostnames", kj::str(path, ".aliases"));
  }
}

void NodeDocuments::kernelLog(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KmsgLogConfig>(document)) {
    auto url = kj::str(d->getUrl());
    if (!url.startsWith("tcp://") && !url.startsWith("udp://")) {
      return decoder.report(document, "url", kj::str("not a URL of tcp or udp"),
                            "for example tcp://192.0.2.7:3001");
    }
    if (url.endsWith("/")) url = kj::heapString(url.slice(0, url.size() - 1));
    kj::String path;
    auto destination = destinations.add("machine.logging.destinations", path);
    destination.setEndpoint(url);
    destination.initStreams(1).set(0, LogStream::KERNEL);
    decoder.from(document, "", path);
    decoder.from(document, "url", kj::str(path, ".endpoint"));
  }
}

void NodeDocuments::eventSink(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::EventSinkConfig>(document)) {
    auto endpoint = d->getEndpoint();
    if (!isHostAndPort(endpoint, true)) {
      return decoder.report(document, "endpoint",
                            kj::str(jsonString(endpoint), " is not a host and a port"),
                            "for example 192.0.2.7:4000");
    }
    kj::String path;
    auto destination = destinations.add("machine.logging.destinations", path);
    destination.setEndpoint(kj::str(kEventSinkPrefix, endpoint));
    destination.initStreams(1).set(0, LogStream::EVENTS);
    decoder.from(document, "", path);
    decoder.from(document, "endpoint", kj::str(path, ".endpoint"));
  }
}

void NodeDocuments::watchdog(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::WatchdogTimerConfig>(document)) {
    if (view.getMachine().hasWatchdog()) {
      return decoder.report(document, "", kj::str("machine.watchdog is set as well"),
                            "remove one of the two");
    }
    auto out = view.getMachine().initWatchdog();
    out.setDevice(d->getDevice());
    if (d->getTimeout().size() > 0) out.setTimeout(d->getTimeout());
    decoder.from(document, "", "machine.watchdog");
  }
}

void NodeDocuments::trustedRoots(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::TrustedRootsConfig>(document)) {
    auto found = pki::certificatesIn(d->getCertificates());
    KJ_IF_MAYBE (mistake, certificatesMistake(d->getCertificates(), found.asPtr())) {
      return decoder.report(document, "certificates", kj::mv(*mistake), kPemForm);
    }
    // The name is a comment in the bundle, of one line.
    auto heading = kj::str("# ", fieldText(d->getName()));
    kj::String path;
    auto root = roots.add("machine.trustedRoots", path);
    root.setKey(d->getName());
    root.setValue(kj::str(heading, "\n", kj::strArray(found, "")));
    decoder.from(document, "", path);
  }
}

void NodeDocuments::etcFile(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::EtcFileConfig>(document)) {
    auto name = d->getName();
    auto target = kj::str("/etc/", name);
    if (!isCleanPath(target) || name.endsWith("/") || name.startsWith(".")) {
      return decoder.report(document, "name",
                            kj::str(jsonString(name), " is not a path of a file below /etc"),
                            "for example nfsmount.conf or multipath/multipath.conf");
    }
    KJ_IF_MAYBE (own, ownFile(name)) {
      return decoder.report(document, "name", kj::str(target, " is not for documents of files"),
                            own->instead);
    }
    kj::String path;
    auto file = files.add("machine.files", path);
    // The node makes the file if the image does not have it.
    file.setOp(FileOp::CREATE);
    file.setPath(target);
    file.setContent(d->getContents());
    file.setPermissions(d->getMode());
    decoder.from(document, "", path);
    decoder.from(document, "name", kj::str(path, ".path"));
    decoder.from(document, "mode", kj::str(path, ".permissions"));
    decoder.from(document, "contents", kj::str(path, ".content"));
  }
}

void NodeDocuments::environment(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::EnvironmentConfig>(document)) {
    for (auto variable : d->getVariables()) {
      variables[variable.getKey().cStr()] = variable.getValue().cStr();
      decoder.from(document, keyPath("variables", variable.getKey()),
                   keyPath("machine.env", variable.getKey()));
    }
  }
}

void NodeDocuments::writeVariables() {
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

void NodeDocuments::mirror(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::RegistryMirrorConfig>(document)) {
    auto endpoints = d->getEndpoints();
    for (auto i : kj::indices(endpoints)) {
      if (endpoints[i].getOverridePath() == endpoints[0].getOverridePath()) continue;
      return decoder.report(
          document, kj::str("endpoints[", i, "].overridePath"),
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
      decoder.from(document, kj::str("endpoints[", i, "].url"),
                   kj::str(path, ".endpoints[", i, "]"));
    }
    if (endpoints.size() > 0) out.setOverridePath(endpoints[0].getOverridePath());
    out.setSkipFallback(d->getSkipFallback());
    decoder.from(document, "", path);
    mirrors.insert_or_assign(d->getName().cStr(), kj::mv(item));
  }
}

Registries::RegistryEntry::Builder NodeDocuments::registry(Document& document, kj::StringPtr host) {
  if (registries.empty()) {
    for (auto old : view.asReader().getMachine().getRegistries().getConfig()) {
      registries.emplace(old.getKey().cStr(), scratch.getOrphanage().newOrphanCopy(old));
    }
  }
  auto found = registries.find(host.cStr());
  if (found != registries.end()) return found->second.get();
  auto item = scratch.getOrphanage().newOrphan<Registries::RegistryEntry>();
  item.get().setKey(host);
  decoder.from(document, "name", keyPath("machine.registries.config", host));
  return registries.emplace(host.cStr(), kj::mv(item)).first->second.get();
}

void NodeDocuments::registryAuth(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::RegistryAuthConfig>(document)) {
    bool user = d->getUsername().size() > 0, token = d->getIdentityToken().size() > 0;
    if (user && token) {
      return decoder.report(document, "identityToken", kj::str("username is set as well"),
                            "remove one of the two");
    }
    if (d->getAuth().size() > 0 && (user || token)) {
      return decoder.report(document, "auth",
                            kj::str(user ? "username" : "identityToken", " is set as well"),
                            "remove one of the two");
    }
    auto out = registry(document, d->getName()).getValue().initAuth();
    out.setUsername(d->getUsername());
    out.setPassword(d->getPassword());
    out.setAuth(d->getAuth());
    out.setIdentityToken(d->getIdentityToken());
    decoder.from(document, "",
                 kj::str(keyPath("machine.registries.config", d->getName()), ".auth"));
  }
}

void NodeDocuments::registryTls(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::RegistryTLSConfig>(document)) {
    if (d->getCa().size() > 0) {
      KJ_IF_MAYBE (mistake,
                   certificatesMistake(d->getCa(), pki::certificatesIn(d->getCa()).asPtr())) {
        return decoder.report(document, "ca", kj::mv(*mistake), kPemForm);
      }
    }
    auto out = registry(document, d->getName()).getValue().initTls();
    if (d->getCa().size() > 0) out.setCa(d->getCa().asBytes());
    if (d->hasClientIdentity()) {
      auto identity = out.initClientIdentity();
      identity.setCrt(d->getClientIdentity().getCert().asBytes());
      identity.setKey(d->getClientIdentity().getKey().asBytes());
    }
    out.setInsecureSkipVerify(d->getInsecureSkipVerify());
    auto path = kj::str(keyPath("machine.registries.config", d->getName()), ".tls");
    decoder.from(document, "", path);
    decoder.from(document, "clientIdentity.cert", kj::str(path, ".clientIdentity.crt"));
  }
}

void NodeDocuments::kubePrism(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubePrismConfig>(document)) {
    constexpr auto kKey = "machine.features.kubePrism"_kj;
    if (view.asReader().getMachine().getFeatures().hasKubePrism()) {
      return decoder.report(document, "", kj::str(kKey, " is set as well"),
                            "remove one of the two");
    }
    auto out = view.getMachine().getFeatures().initKubePrism();
    out.setEnabled(true);
    out.setPort(d->getPort());
    out.setTlsServerName(d->getTlsServerName());
    decoder.from(document, "", kKey);
  }
}

void NodeDocuments::imageCache(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::ImageCacheConfig>(document)) {
    constexpr auto kKey = "machine.features.imageCache"_kj;
    if (view.asReader().getMachine().getFeatures().hasImageCache()) {
      return decoder.report(document, "", kj::str(kKey, " is set as well"),
                            "remove one of the two");
    }
    view.getMachine().getFeatures().initImageCache().setLocalEnabled(d->getLocal().getEnabled());
    decoder.from(document, "local.enabled", kj::str(kKey, ".localEnabled"));
  }
}

void NodeDocuments::writeRegistries() {
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

void NodeDocuments::installation(Document& document) {
  constexpr auto kMatch = "provisioning.diskSelector.match"_kj, kInstall = "machine.install"_kj;
  KJ_IF_MAYBE (d, decoder.decode<document::UnattendedInstallConfig>(document)) {
    auto errors = decoder.errors();
    auto machine = view.getMachine();
    if (machine.hasInstall()) {
      decoder.report(document, "", kj::str(kInstall, " is set as well"), "remove one of the two");
    }
    auto match = d->getProvisioning().getDiskSelector().getMatch();
    KJ_IF_MAYBE (mistake, cel::compileDiskSelector(match).mistake) {
      decoder.report(document, kMatch, kj::str("in the expression, ", cel::render(match, *mistake)),
                     "for example disk.transport == \"nvme\" && disk.size > 100u * GB");
    }
    if (!d->getReboot()) {
      decoder.refuse(document, "reboot", "a node reboots into the system that it has installed");
    }
    if (decoder.errors() != errors) return;
    auto install = machine.initInstall();
    install.setDiskMatch(match);
    install.setImage(d->getInstaller().getImage());
    install.setWipe(d->getProvisioning().getWipe());
    decoder.from(document, "", kInstall);
    decoder.from(document, kMatch, "machine.install.diskMatch");
    decoder.from(document, "installer.image", "machine.install.image");
    decoder.from(document, "provisioning.wipe", "machine.install.wipe");
  }
}

}  // namespace talos::config
