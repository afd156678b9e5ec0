// machine: identity, time and environment.

#include "common/base/join-token.h"
#include "common/base/service-variables.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

// Limits of the environment that process 1 can give a child.
constexpr size_t kMostEnvironment = 16384, kMostVariables = 256;

// Returns the services for which the node sets the variable itself, as a text; "" if there are
// none.
kj::String servicesThatOverride(kj::StringPtr variable) {
  kj::Vector<kj::StringPtr> services;
  for (auto& each : kServiceVariables) {
    if (each.name != variable) continue;
    services.add(each.service.size() == 0 ? "the services of this system"_kj : each.service);
  }
  if (services.empty()) return kj::String();
  auto last = services.back();
  services.removeLast();
  if (services.empty()) return kj::str(last);
  return kj::str(kj::strArray(services, ", "), " and ", last);
}

void checkEnvironment(Report& report, capnp::List<StringPair>::Reader variables) {
  size_t size = 0;
  for (auto variable : variables) {
    auto name = variable.getKey();
    bool bad = name.size() == 0 || (name[0] >= '0' && name[0] <= '9');
    for (char c : name) bad = bad || c == '=' || static_cast<unsigned char>(c) <= ' ';
    if (bad) {
      report.error(keyPath("machine.env", name),
                   kj::str("\"", name, "\" is not a valid name of a variable"),
                   "use letters, digits and _, not beginning with a digit");
    }
    if (auto services = servicesThatOverride(name); services.size() > 0) {
      report.warn(
          keyPath("machine.env", name),
          kj::str("not used for ", services, ", because the node sets this variable itself"));
    }
    size += name.size() + variable.getValue().size() + 2;
  }
  if (size > kMostEnvironment || variables.size() > kMostVariables) {
    // Those of documents are more than an earlier release counted.
    report.laterError("machine.env",
                      kj::str("too many variables: ", variables.size(), " of ", size, " bytes"),
                      kj::str("at most ", kMostVariables, " of ", kMostEnvironment, " bytes"));
  }
}

void checkAuthorityHash(Report& report, Machine::Reader machine) {
  constexpr auto kPath = "machine.caHash"_kj;
  auto hash = machine.getCaHash();
  if (hash.size() == 0) return;
  if (!isAuthorityHash(hash)) {
    report.error(
        kPath, kj::str("not a valid hash of a CA"),
        "use sha256: and 64 lower-case hexadecimal digits, as `talosctl gen ca` prints it");
    return;
  }
  if (machine.getCa().getCrt().size() == 0) return;
  auto certificate = kj::heapString(machine.getCa().getCrt().asChars());
  auto unreadable = kj::runCatchingExceptions([&]() {  // which is reported with machine.ca
    auto own = pki::authorityHash(certificate);
    if (own != hash) {
      report.error(kPath, kj::str("does not match machine.ca, whose hash is ", own),
                   "remove one of the two");
    }
  });
}

void checkJoinToken(Report& report, kj::StringPtr token, bool controlPlane) {
  if (controlPlane) {
    report.error("machine.token", kj::str("a join token, which workers join with"),
                 "use the token that the control-plane nodes share");
  } else if (joinTokenId(token) == nullptr) {
    report.error("machine.token", kj::str("not a valid join token"),
                 "use join-, 6 characters, a dot and 16 characters, of a-z and 0-9, as "
                 "`talosctl token create` prints it");
  }
}

void checkIdentity(Report& report, Machine::Reader machine) {
  bool controlPlane = isControlPlane(machine.getType());
  if (!report.has("machine.type"))
    report.warn("machine.type", kj::str("missing; the node will be a worker"));
  if (machine.getToken().size() == 0) {
    report.warn("machine.token", kj::str("token is missing"));
  } else if (isJoinTokenLike(machine.getToken())) {
    checkJoinToken(report, machine.getToken(), controlPlane);
  } else {
    report.strength("machine.token", machine.getToken());
  }
  auto keys = keysOf(report, machine.getType());
  report.authority("machine.ca", machine.getCa(), keys);
  if (controlPlane && !machine.hasCa()) {
    report.error("machine.ca", kj::str("a control-plane node needs the CA of the machine API"));
  }
  bool refused = report.has("machine.ca.crt") && !report.isRead("machine.ca.crt");
  if (keys == Report::Key::kUnwanted && machine.getCa().getCrt().size() == 0 && !refused &&
      machine.getCaHash().size() == 0) {
    report.warn("machine.ca",
                kj::str("the CA of the machine API is missing, so the node cannot verify from whom "
                        "it gets its certificate"),
                "set ca.crt, without the key, or caHash");
  }
  report.accepted("machine.acceptedCAs", machine.getAcceptedCAs());
  checkAuthorityHash(report, machine);
  report.hosts("machine.certSANs", machine.getCertSANs());
}

void checkPodAccess(Report& report, Machine::Reader machine) {
  constexpr auto kPath = "machine.features.kubernetesTalosAPIAccess"_kj;
  auto access = machine.getFeatures().getKubernetesTalosAPIAccess();
  auto namespaces = access.getAllowedKubernetesNamespaces();
  for (auto i : kj::indices(namespaces)) {
    if (isNamespace(namespaces[i])) continue;
    report.error(kj::str(kPath, ".allowedKubernetesNamespaces[", i, "]"),
                 kj::str("\"", namespaces[i], "\" is not a valid name of a namespace"),
                 "use lower-case letters, digits and -");
  }
  if (!access.getEnabled()) return;
  if (!isControlPlane(machine.getType())) {
    report.error(kj::str(kPath, ".enabled"),
                 kj::str("access of pods to the machine API is for control-plane nodes only"),
                 "remove it from the configs of workers");
    return;
  }
  if (access.getAllowedRoles().size() == 0 || namespaces.size() == 0) {
    report.warn(kPath, kj::str("no pod is given access"),
                "set allowedRoles and allowedKubernetesNamespaces");
  }
}

void checkHostDns(Report& report, HostDns::Reader dns) {
  if (dns.getEnabled()) return;
  auto needsEnabled = [&](kj::StringPtr key, bool set) {
    if (!set) return;
    report.warn(kj::str("machine.features.hostDNS.", key),
                kj::str("host DNS is not enabled, so this has no effect"), "set enabled: true");
  };
  needsEnabled("forwardKubeDNSToHost", dns.getForwardKubeDNSToHost());
  needsEnabled("resolveMemberNames", dns.getResolveMemberNames());
}

void checkTime(Report& report, Time::Reader time) {
  size_t i = 0;
  for (auto server : time.getServers()) {
    auto path = kj::str("machine.time.servers[", i++, "]");
    if (!isHost(server))
      report.error(path, kj::str("\"", server, "\" is neither an IP address nor a DNS name"));
  }
  auto timeout = time.getBootTimeout();
  if (timeout.size() == 0 || parseDuration(timeout) != nullptr) return;
  report.laterError("machine.time.bootTimeout", kj::str("\"", timeout, "\" is not a duration"),
                    "for example 2m");
}

}  // namespace

bool isNamespace(kj::StringPtr name) {
  if (name.size() == 0 || name.size() > 63 || name[0] == '-' || name[name.size() - 1] == '-') {
    return false;
  }
  for (char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-') return false;
  }
  return true;
}

void checkMachine(Report& report, Machine::Reader machine) {
  checkIdentity(report, machine);
  checkKubelet(report, machine);
  if (machine.hasNetwork()) checkNetwork(report, machine.getNetwork(), machine.getType());
  checkTime(report, machine.getTime());
  checkEnvironment(report, machine.getEnv());
  checkKernel(report, machine);
  checkLogging(report, machine.getLogging());
  checkPodAccess(report, machine);
  checkHostDns(report, machine.getFeatures().getHostDNS());
  checkFreeFormValues(report, machine);
  checkStorage(report, machine);
  checkRegistries(report, machine.getRegistries());
}

}  // namespace talos::config
