#include "talosctl/diagnose/observed.h"

#include <string.h>
#include <time.h>

#include "common/base/date.h"
#include "common/base/node-messages.h"
#include "common/config/config.h"

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

bool lists(capnp::List<capnp::Text>::Reader list, kj::StringPtr text) {
  for (auto one : list) {
    if (one == text) return true;
  }
  return false;
}

bool isFirst(kj::Vector<kj::String>& known, kj::StringPtr key) {
  for (auto& one : known) {
    if (one == key) return false;
  }
  known.add(kj::str(key));
  return true;
}

// --- nodes

bool answers(ObservedNode node) {
  return node.getReach() == Reach::ANSWERS;
}

bool isUnanswered(ObservedNode node, Question question) {
  for (auto one : node.getUnanswered()) {
    if (one.getQuestion() == question) return true;
  }
  return false;
}

bool mayBeSilentControlPlane(ObservedNode node) {
  return !answers(node) && (node.getControlPlane() || node.getReach() == Reach::SILENT);
}

kj::Maybe<ObservedNode> nodeAt(ObservedCluster cluster, kj::StringPtr address) {
  for (auto node : cluster.getNodes()) {
    if (node.getAddress() == address || lists(node.getNodeAddresses(), address)) return node;
  }
  return nullptr;
}

kj::Maybe<ObservedNode> nodeNamed(ObservedCluster cluster, kj::StringPtr name) {
  for (auto node : cluster.getNodes()) {
    if (node.getKubelet().getNodename() == name || node.getHostname() == name) return node;
  }
  // A node that is down is known only by its address.
  for (auto one : cluster.getSurvey().getNodes()) {
    if (one.getName() != name) continue;
    for (auto address : one.getAddresses()) {
      KJ_IF_MAYBE (node, nodeAt(cluster, address)) return *node;
    }
  }
  return nullptr;
}

int64_t nowOn(ObservedCluster cluster, ObservedNode node) {
  return node.getClock() != 0 ? node.getClock() : cluster.getNow();
}

bool allControlPlanesAsked(ObservedCluster cluster) {
  for (auto node : cluster.getNodes()) {
    for (auto member : node.getMembers()) {
      for (auto url : member.getPeerUrls()) {
        if (nodeAt(cluster, hostOf(url).host) == nullptr) return false;
      }
    }
  }
  for (auto one : cluster.getSurvey().getNodes()) {
    if (one.getControlPlane() && nodeNamed(cluster, one.getName()) == nullptr) return false;
  }
  return true;
}

bool isApplied(kj::StringPtr manifests) {
  return manifests == messages::kApplied ||
         manifests.startsWith(kj::str(messages::kApplied, messages::kNextMessage));
}

bool hasManifests(ObservedCluster cluster) {
  for (auto node : cluster.getNodes()) {
    auto message = node.getManifests().getMessage();
    if (isApplied(message)) return true;
  }
  return false;
}

// --- services, and messages of a node

kj::Maybe<rpc::Service::Reader> serviceOf(ObservedNode node, kj::StringPtr id) {
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

kj::Maybe<rpc::Service::Reader> downService(ObservedNode node, kj::StringPtr id) {
  KJ_IF_MAYBE (service, serviceOf(node, id)) {
    if (!isUp(*service)) return *service;
  }
  return nullptr;
}

Statement statementOf(rpc::Service::Reader service) {
  Statement statement{.source = kj::str("service ", service.getId()), .text = {}};
  auto health = service.getHealth();
  bool running = service.getState() == rpc::ServiceState::RUNNING;
  if (running && !health.getUnknown() && !health.getHealthy()) {
    statement.text = kj::str(health.getLastMessage());
    statement.time = health.getLastChange();
    return statement;
  }
  auto events = service.getEvents();
  if (events.size() == 0) return statement;
  // The event with the reason of an exit precedes the events of the restart.
  constexpr size_t kLooked = 3;
  auto oldest = events.size() - kj::min(kLooked, size_t(events.size()));
  auto best = events[events.size() - 1];
  for (size_t i = events.size(); i > oldest; --i) {
    auto event = events[i - 1];
    if (!hasAny(event.getMessage(), {"cannot ", "exited", "killed", "failed"})) continue;
    best = event;
    break;
  }
  statement.text = kj::str(best.getMessage());
  statement.time = best.getTime();
  return statement;
}

bool exitedWithError(kj::StringPtr text) {
  return has(text, messages::kExitedWithStatus) &&
         !has(text, kj::str(messages::kExitedWithStatus, "0"));
}

bool isStopped(rpc::Service::Reader service) {
  return service.getState() == rpc::ServiceState::FINISHED &&
         has(statementOf(service).text, messages::kServiceStopped);
}

kj::Maybe<RecentCrash> recentCrash(rpc::Service::Reader service) {
  constexpr uint64_t kRecent = 3'600'000'000'000;  // ns
  auto events = service.getEvents();
  for (unsigned i = events.size(); i > 0; --i) {
    auto event = events[i - 1];
    kj::StringPtr message = event.getMessage();
    auto at = strstr(message.cStr(), messages::kCrashReport.cStr());
    if (at == nullptr) continue;
    bool recent = event.getUptime() > 0 && service.getUptime() < event.getUptime() + kRecent;
    if (!recent) return nullptr;
    auto report = kj::StringPtr(at + messages::kCrashReport.size());
    auto end = report.findFirst(';').orDefault(report.size());
    return RecentCrash{
        kj::heapString(report.slice(0, end)),
        Statement{kj::str("service ", service.getId()), kj::str(message), event.getTime()}};
  }
  return nullptr;
}

kj::Vector<Statement> complaintsOf(ObservedNode node) {
  kj::Vector<Statement> all;
  auto add = [&](kj::StringPtr source, kj::StringPtr text) {
    if (text.size() > 0) all.add(Statement{kj::str(source), kj::str(text)});
  };
  for (auto service : node.getServices()) {
    auto statement = statementOf(service);
    if (!isUp(service) && statement.text.size() > 0) all.add(kj::mv(statement));
  }
  auto time = node.getTime();
  if (!time.getSynced() && !time.getSyncDisabled()) add("get timestatus", time.getProblem());
  if (node.getJoins() && !node.getJoin().getReady()) {
    add("get joinstatus", node.getJoin().getMessage());
  }
  auto etcd = node.getEtcd();
  if (etcd.getPhase() != "member") add("get etcdstatus", etcd.getMessage());
  add("get manifeststatus", node.getManifests().getMessage());
  auto status = node.getNodeStatus();
  if (!status.getApplied()) add("get nodestatus", status.getMessage());
  return all;
}

kj::Maybe<Statement> certificateWait(ObservedNode node) {
  KJ_IF_MAYBE (service, serviceOf(node, "kubelet")) {
    auto events = service->getEvents();
    if (service->getState() != rpc::ServiceState::PREPARING || events.size() == 0) return nullptr;
    auto newest = events[events.size() - 1];
    kj::StringPtr text = newest.getMessage();
    if (text.startsWith(messages::kWaitingForCertificate)) {
      return Statement{kj::str("service kubelet"),
                       kj::str(text.slice(messages::kWaitingForCertificate.size())),
                       newest.getTime()};
    }
  }
  return nullptr;
}

// --- logs

namespace {

// Interval within which a program that exits is restarted.
constexpr auto kRestartedWithin = 2 * kj::MINUTES;

// The level and time of klog's lines; nullptr for other lines.
struct Klog {
  char level;
  tm written;
};
kj::Maybe<Klog> klogOf(kj::StringPtr line) {
  Klog klog{.level = line.size() > 0 ? line[0] : ' ', .written = {}};
  auto rest = line.size() > 1 ? strptime(line.cStr() + 1, "%m%d %H:%M:%S", &klog.written) : nullptr;
  bool valid = rest != nullptr && *rest == '.' && strchr("IWEF", klog.level) != nullptr;
  return valid ? kj::Maybe<Klog>(klog) : nullptr;
}

}  // namespace

bool isRecent(ObservedCluster cluster, ObservedNode node, kj::StringPtr line, kj::Duration within) {
  KJ_IF_MAYBE (klog, klogOf(line)) {
    time_t now = nowOn(cluster, node) / kSecondNs;
    tm today{};
    gmtime_r(&now, &today);
    klog->written.tm_year = today.tm_year;
    auto age = now - timegm(&klog->written);
    constexpr int64_t kYear = 365 * 86400;
    if (age < -kYear / 2) age += kYear;  // line of last December
    return age <= within / kj::SECONDS;
  }
  return true;
}

capnp::List<capnp::Text>::Reader linesOfLog(ObservedNode node, kj::StringPtr log) {
  for (auto one : node.getLogs()) {
    if (one.getId() == log) return one.getLines();
  }
  return {};
}

kj::StringPtr newestLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log,
                         const LineQuery& query) {
  auto lines = linesOfLog(node, log);
  for (size_t i = lines.size(); i-- > 0;) {
    kj::StringPtr line = lines[i];
    auto isInformation = [&] {
      return klogOf(line).map([](auto& klog) { return klog.level == 'I'; }).orDefault(false);
    };
    if (!hasAny(line, query.parts) || hasAny(line, query.without)) continue;
    if (query.errorsOnly && isInformation()) continue;
    if (isRecent(cluster, node, line, query.within)) return line;
  }
  return "";
}

kj::StringPtr lastLine(ObservedNode node, kj::StringPtr log) {
  auto lines = linesOfLog(node, log);
  return lines.size() > 0 ? lines[lines.size() - 1] : ""_kj;
}

kj::StringPtr fatalLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log) {
  auto wrong = newestLine(
      cluster, node, log,
      {.parts = {"unknown flag", "invalid argument", "failed to parse", "address already in use"},
       .within = kRestartedWithin,
       .errorsOnly = true});
  if (wrong.size() > 0) return wrong;
  return newestLine(cluster, node, log,
                    {.parts = {"Error: ", "error: ", "command failed", "panic: ", "fatal",
                               "failed to run Kubelet", "failed to validate", "Error starting"},
                     .within = kRestartedWithin,
                     .errorsOnly = true});
}

bool isArgumentError(kj::StringPtr line) {
  return hasAny(line, {"unknown flag", "invalid argument", "failed to parse"});
}

// --- failures

namespace {

struct FailureRow {
  FailureKind failure;
  kj::StringPtr description;
  std::initializer_list<kj::StringPtr> parts;
};

// The first row with a part that the text contains counts. The rows for pulls come first.
constexpr size_t kPullRows = 5;
kj::ArrayPtr<const FailureRow> failureRows() {
  static const FailureRow kRows[] = {
      {FailureKind::kReference,
       "that is not a valid image reference",
       {messages::kInvalidReference, "invalid reference format", "InvalidImageName"}},
      {FailureKind::kCredentials,
       "it requires other credentials",
       {"authorization failed", "no basic auth", "401 Unauthorized", "403 Forbidden",
        "pull access denied"}},
      {FailureKind::kNoSuchImage,
       "the registry has no such image; check the name and the tag",
       {"no such image", "NotFound", ": not found", "404 Not Found"}},
      {FailureKind::kPlainHttp,
       "it speaks HTTP, and not HTTPS",
       {"server gave HTTP response to HTTPS client", "first record does not look like"}},
      {FailureKind::kStatus, "it answers with an error", {"unexpected status"}},
      {FailureKind::kNoTls,
       "it does not speak TLS",
       {"wrong version number", "packet length too long"}},
      {FailureKind::kSilent, "it does not answer", {"TLS handshake timeout"}},
      {FailureKind::kClosed,
       "it closes each connection without an answer",
       {"the peer disconnected"}},
      {FailureKind::kCertificateTime,
       "a certificate has expired or is not yet valid",
       {"certificate has expired", "certificate is not yet valid", "alert certificate expired",
        "the peer refused this certificate"}},
      {FailureKind::kCertificateName,
       "its certificate does not have this name",
       {"hostname mismatch", "IP address mismatch", "x509: certificate is valid for ",
        "cannot validate certificate for", "certificate is not valid for"}},
      {FailureKind::kCertificate,
       "its certificate is not trusted",
       {"x509: ", "certificate", "TLS handshake", "tls: ", "alert unknown ca",
        "alert handshake failure"}},
      {FailureKind::kUnknownName,
       "its name is not known to the name servers",
       {"no such host", "Domain name not found", "DNS server returned answer with no "}},
      {FailureKind::kNoNameServer,
       "its name cannot be resolved: no name server answers",
       {"lookup ", messages::kCannotResolve, "name server", "DNS server"}},
      {FailureKind::kRefused, "nothing listens there", {"connection refused"}},
      {FailureKind::kClosed,
       "it closes each connection without an answer",
       {"connection reset by peer", "\": EOF", ": unexpected EOF"}},
      {FailureKind::kUnreachable,
       "there is no route to it",
       {"network is unreachable", "no route to host", "host is unreachable"}},
      {FailureKind::kSilent,
       "it does not answer",
       {"timeout", "timed out", "no answer", "deadline exceeded"}},
      {FailureKind::kMirrors,
       "no mirror has it, and the registry itself cannot be reached; check the name and the tag",
       {}},
  };
  return kRows;
}

FailureKind firstMatch(kj::ArrayPtr<const FailureRow> rows, kj::StringPtr text) {
  for (auto& row : rows) {
    if (hasAny(text, row.parts)) return row.failure;
  }
  return FailureKind::kOther;
}

}  // namespace

FailureKind failureOf(kj::StringPtr text) {
  return firstMatch(failureRows().slice(kPullRows, failureRows().size()), text);
}

FailureKind pullFailureOf(kj::StringPtr text) {
  return firstMatch(failureRows(), text);
}

bool isTrustFailure(FailureKind failure) {
  return failure == FailureKind::kCertificate || failure == FailureKind::kCertificateTime ||
         failure == FailureKind::kCertificateName;
}

bool isNameFailure(FailureKind failure) {
  return failure == FailureKind::kUnknownName || failure == FailureKind::kNoNameServer;
}

bool isConnectionFailure(FailureKind failure) {
  return isNameFailure(failure) || failure == FailureKind::kRefused ||
         failure == FailureKind::kClosed || failure == FailureKind::kUnreachable ||
         failure == FailureKind::kSilent;
}

kj::StringPtr describe(FailureKind failure) {
  for (auto& row : failureRows()) {
    if (row.failure == failure) return row.description;
  }
  return "see the evidence";
}

// --- texts

HostPort hostOf(kj::StringPtr url) {
  auto endpoint = config::parseEndpoint(url).value;
  return {kj::mv(endpoint.host), endpoint.port.orDefault(443)};
}

kj::String dayOf(int64_t seconds) {
  return dateText(kj::UNIX_EPOCH + seconds * kj::SECONDS);
}

kj::String validity(int64_t notBefore, int64_t notAfter) {
  return kj::str("valid from ", dayOf(notBefore), " until ", dayOf(notAfter));
}

kj::String reasonText(kj::StringPtr reason, kj::StringPtr message) {
  return kj::str(reason, reason.size() > 0 && message.size() > 0 ? ": " : "", message);
}

kj::String clockDifference(int64_t nanoseconds) {
  auto seconds = static_cast<uint64_t>(nanoseconds < 0 ? -nanoseconds : nanoseconds) / kSecondNs;
  struct Unit {
    uint64_t seconds;
    kj::StringPtr name;
  };
  constexpr Unit kUnits[] = {{365 * 86400, "year"_kj},
                             {86400, "day"_kj},
                             {3600, "hour"_kj},
                             {60, "minute"_kj},
                             {1, "second"_kj}};
  auto direction = nanoseconds > 0 ? " ahead of"_kj : " behind"_kj;
  for (auto& unit : kUnits) {
    auto count = seconds / unit.seconds;
    if (count > 0) return kj::str(count, " ", unit.name, count == 1 ? "" : "s", direction);
  }
  return kj::str("less than a second", direction);
}

bool isOfTheNode(ObservedNode node, rpc::AddressStatusSpec::Reader address) {
  if (lists(node.getLinkSpecs(), address.getLinkName())) return true;
  KJ_IF_MAYBE (prefix, Prefix::parse(address.getAddress())) {
    auto ip = prefix->address.toString();
    return ip == node.getAddress() || lists(node.getKubelet().getNodeIPs(), ip);
  }
  return false;
}

kj::Maybe<Prefix> overlap(kj::StringPtr one, kj::StringPtr other) {
  KJ_IF_MAYBE (a, Prefix::parse(one)) {
    KJ_IF_MAYBE (b, Prefix::parse(other)) {
      if (a->address.family() != b->address.family()) return nullptr;
      auto& wide = a->length <= b->length ? *a : *b;
      auto& narrow = a->length <= b->length ? *b : *a;
      if (wide.masked().contains(narrow.address)) return b->masked();
    }
  }
  return nullptr;
}

bool hasAddressOfThePods(ObservedNode node) {
  auto facts = node.getFacts();
  for (auto address : node.getAddresses()) {
    if (!isOfTheNode(node, address)) continue;
    for (auto subnets : {facts.getPodSubnets(), facts.getServiceSubnets()}) {
      for (auto subnet : subnets) {
        if (overlap(subnet, address.getAddress()) != nullptr) return true;
      }
    }
  }
  return false;
}

}  // namespace talos::talosctl
