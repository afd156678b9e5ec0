#include "talosctl/diagnose/observed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/config/config.h"
#include "common/net/ip.h"

namespace talos::talosctl {

bool has(kj::StringPtr text, kj::StringPtr part) {
  return strcasestr(text.cStr(), part.cStr()) != nullptr;
}

bool hasAny(kj::StringPtr text, std::initializer_list<kj::StringPtr> parts) {
  for (auto part : parts) {
    if (has(text, part)) return true;
  }
  return false;
}

bool answers(SeenNode node) {
  return node.getReach() == Reach::ANSWERS;
}

bool isControlPlane(SeenNode node) {
  return node.getControlPlane();
}

kj::Maybe<SeenNode> nodeAt(Seen seen, kj::StringPtr address) {
  for (auto node : seen.getNodes()) {
    if (node.getAddress() == address) return node;
    for (auto own : node.getNodeAddresses()) {
      if (own == address) return node;
    }
  }
  return nullptr;
}

kj::Maybe<SeenNode> nodeNamed(Seen seen, kj::StringPtr name) {
  for (auto node : seen.getNodes()) {
    if (node.getKubelet().getNodename() == name || node.getHostname() == name) return node;
  }
  // One that is down is known by its address alone.
  for (auto one : seen.getSurvey().getNodes()) {
    if (one.getName() != name) continue;
    for (auto address : one.getAddresses()) {
      KJ_IF_MAYBE (node, nodeAt(seen, address)) return *node;
    }
  }
  return nullptr;
}

kj::Maybe<rpc::Service::Reader> serviceOf(SeenNode node, kj::StringPtr id) {
  for (auto service : node.getServices()) {
    if (service.getId() == id) return service;
  }
  return nullptr;
}

bool isUp(rpc::Service::Reader service) {
  if (service.getState() != rpc::ServiceState::RUNNING) return false;
  auto health = service.getHealth();
  return health.getUnknown() ? !service.getChecked() : health.getHealthy();
}

Told tells(rpc::Service::Reader service) {
  auto health = service.getHealth();
  bool running = service.getState() == rpc::ServiceState::RUNNING;
  if (running && !health.getUnknown() && !health.getHealthy()) {
    return {health.getLastMessage(), health.getLastChange()};
  }
  auto events = service.getEvents();
  if (events.size() == 0) return {};
  // Why a process ended stands before what was done about it.
  constexpr size_t kLooked = 3;
  auto oldest = events.size() - kj::min(kLooked, size_t(events.size()));
  for (size_t i = events.size(); i > oldest; --i) {
    auto event = events[i - 1];
    if (hasAny(event.getMessage(), {"cannot ", "exited", "killed", "failed"})) {
      return {event.getMessage(), event.getTime()};
    }
  }
  auto newest = events[events.size() - 1];
  return {newest.getMessage(), newest.getTime()};
}

kj::Maybe<Told> certificateWait(SeenNode node) {
  constexpr kj::StringPtr kWaits = "Waiting for its certificate: "_kj;
  KJ_IF_MAYBE (service, serviceOf(node, "kubelet")) {
    auto events = service->getEvents();
    if (service->getState() != rpc::ServiceState::PREPARING || events.size() == 0) return nullptr;
    auto newest = events[events.size() - 1];
    kj::StringPtr text = newest.getMessage();
    if (text.startsWith(kWaits)) return Told{text.slice(kWaits.size()), newest.getTime()};
  }
  return nullptr;
}

kj::StringPtr newestLine(SeenNode node, kj::StringPtr log,
                         std::initializer_list<kj::StringPtr> words) {
  for (auto one : node.getLogs()) {
    if (one.getId() != log) continue;
    auto lines = one.getLines();
    for (size_t i = lines.size(); i-- > 0;) {
      if (hasAny(lines[i], words)) return lines[i];
    }
  }
  return "";
}

kj::StringPtr lastLine(SeenNode node, kj::StringPtr log) {
  for (auto one : node.getLogs()) {
    auto lines = one.getLines();
    if (one.getId() == log && lines.size() > 0) return lines[lines.size() - 1];
  }
  return "";
}

bool isRecent(Seen seen, SeenNode node, kj::StringPtr line, kj::Duration within) {
  tm written{};
  auto rest = line.size() > 1 ? strptime(line.cStr() + 1, "%m%d %H:%M:%S", &written) : nullptr;
  bool klog = rest != nullptr && *rest == '.' && strchr("IWEF", line[0]) != nullptr;
  if (!klog) return true;
  constexpr int64_t kSecond = 1'000'000'000;
  time_t now = (node.getClock() != 0 ? node.getClock() : seen.getNow()) / kSecond;
  tm today{};
  gmtime_r(&now, &today);
  written.tm_year = today.tm_year;
  auto age = now - timegm(&written);
  constexpr int64_t kYear = 365 * 86400;
  if (age < -kYear / 2) age += kYear;  // of last December
  return age <= within / kj::SECONDS;
}

namespace {

constexpr auto kEndsAgain = 2 * kj::MINUTES;  // a program that ends is started that often

// "I1122 18:50:08.179938 …"
bool isInformation(kj::StringPtr line) {
  constexpr size_t kDate = 5;
  if (line.size() <= kDate || line[0] != 'I' || line[kDate] != ' ') return false;
  for (size_t i = 1; i < kDate; ++i) {
    if (line[i] < '0' || line[i] > '9') return false;
  }
  return true;
}

kj::StringPtr newestFatal(Seen seen, SeenNode node, kj::StringPtr log,
                          std::initializer_list<kj::StringPtr> words) {
  for (auto one : node.getLogs()) {
    if (one.getId() != log) continue;
    auto lines = one.getLines();
    for (size_t i = lines.size(); i-- > 0;) {
      if (isInformation(lines[i]) || !hasAny(lines[i], words)) continue;
      if (isRecent(seen, node, lines[i], kEndsAgain)) return lines[i];
    }
  }
  return "";
}

}  // namespace

kj::StringPtr fatalLine(Seen seen, SeenNode node, kj::StringPtr log) {
  auto wrong = newestFatal(
      seen, node, log,
      {"unknown flag", "invalid argument", "failed to parse", "address already in use"});
  if (wrong.size() > 0) return wrong;
  return newestFatal(seen, node, log,
                     {"Error: ", "error: ", "command failed", "panic: ", "fatal",
                      "failed to run Kubelet", "failed to validate", "Error starting"});
}

bool allControlPlanesAsked(Seen seen) {
  for (auto node : seen.getNodes()) {
    for (auto member : node.getMembers()) {
      for (auto url : member.getPeerUrls()) {
        if (nodeAt(seen, hostOf(url).host) == nullptr) return false;
      }
    }
  }
  for (auto one : seen.getSurvey().getNodes()) {
    if (one.getControlPlane() && nodeNamed(seen, one.getName()) == nullptr) return false;
  }
  return true;
}

bool hasManifests(Seen seen) {
  for (auto node : seen.getNodes()) {
    auto message = node.getManifests().getMessage();
    if (message == "applied" || message.startsWith("applied; ")) return true;
  }
  return false;
}

DialFailure failureOf(kj::StringPtr text) {
  if (hasAny(text, {"x509: ", "certificate", "TLS handshake", "tls: "})) {
    return DialFailure::kCertificate;
  }
  if (hasAny(text,
             {"no such host", "Domain name not found", "DNS server returned answer with no "})) {
    return DialFailure::kUnknownName;
  }
  bool aboutNames = hasAny(text, {"lookup ", "cannot resolve", "name server", "DNS server"});
  if (aboutNames) return DialFailure::kNoNameServer;
  if (has(text, "connection refused")) return DialFailure::kRefused;
  if (hasAny(text, {"network is unreachable", "no route to host", "host is unreachable"})) {
    return DialFailure::kUnreachable;
  }
  if (hasAny(text, {"timeout", "timed out", "no answer", "deadline exceeded"})) {
    return DialFailure::kSilent;
  }
  return DialFailure::kOther;
}

kj::StringPtr wordsOf(DialFailure failure) {
  switch (failure) {
    case DialFailure::kUnknownName:
      return "its name is not known to the name servers";
    case DialFailure::kNoNameServer:
      return "its name cannot be resolved: no name server answers";
    case DialFailure::kRefused:
      return "nothing listens there";
    case DialFailure::kUnreachable:
      return "there is no route to it";
    case DialFailure::kSilent:
      return "it does not answer";
    case DialFailure::kCertificate:
      return "its certificate is not trusted";
    case DialFailure::kOther:
      break;
  }
  return "it answers with an error";
}

kj::Vector<Complaint> complaintsOf(SeenNode node) {
  kj::Vector<Complaint> all;
  auto add = [&](kj::String source, kj::StringPtr text, uint64_t time = 0) {
    if (text.size() > 0) all.add(Complaint{kj::mv(source), kj::str(text), time});
  };
  for (auto service : node.getServices()) {
    if (isUp(service)) continue;
    auto told = tells(service);
    add(kj::str("service ", service.getId()), told.text, told.time);
  }
  auto time = node.getTime();
  if (!time.getSynced() && !time.getSyncDisabled())
    add(kj::str("get timestatus"), time.getProblem());
  if (node.getJoins() && !node.getJoin().getReady()) {
    add(kj::str("get joinstatus"), node.getJoin().getMessage());
  }
  auto etcd = node.getEtcd();
  if (etcd.getPhase() != "member") add(kj::str("get etcdstatus"), etcd.getMessage());
  add(kj::str("get manifeststatus"), node.getManifests().getMessage());
  if (!node.getNodeStatus().getApplied()) {
    add(kj::str("get nodestatus"), node.getNodeStatus().getMessage());
  }
  return all;
}

HostPort hostOf(kj::StringPtr url) {
  auto endpoint = config::parseEndpoint(url).value;
  return {kj::mv(endpoint.host), endpoint.port.orDefault(443)};
}

kj::String setInConfig(SeenNode node, kj::StringPtr path, kj::StringPtr value) {
  return kj::str("talosctl -n ", node.getAddress(),
                 " patch machineconfig --mode=no-reboot -p '[{\"op\": \"add\", \"path\": \"", path,
                 "\", \"value\": ", value, "}]'");
}

kj::String apart(int64_t nanoseconds) {
  uint64_t seconds =
      static_cast<uint64_t>(nanoseconds < 0 ? -nanoseconds : nanoseconds) / 1000000000;
  struct Unit {
    uint64_t seconds;
    kj::StringPtr name;
  };
  constexpr Unit kUnits[] = {{365 * 86400, "year"_kj},
                             {86400, "day"_kj},
                             {3600, "hour"_kj},
                             {60, "minute"_kj},
                             {1, "second"_kj}};
  for (auto& unit : kUnits) {
    auto count = seconds / unit.seconds;
    if (count > 0) return kj::str(count, " ", unit.name, count == 1 ? "" : "s");
  }
  return kj::str("less than a second");
}

}  // namespace talos::talosctl
