// Questions about the observations that several checks have in common. Pure.
#pragma once

#include <kj/time.h>

#include "common/net/ip.h"
#include "talosctl/diagnose/illness-table.h"

namespace talos::talosctl {

constexpr int64_t kSecondNs = 1'000'000'000;

bool has(kj::StringPtr text, kj::StringPtr part);
bool hasAny(kj::StringPtr text, std::initializer_list<kj::StringPtr> parts);
bool lists(capnp::List<capnp::Text>::Reader list, kj::StringPtr text);
// Returns true the first time that it is called for `key`.
bool isFirst(kj::Vector<kj::String>& known, kj::StringPtr key);

// Returns true if the node answers requests of all kinds.
bool answers(ObservedNode node);
// Returns true if the node, which answers other requests, has not answered this question.
bool isUnanswered(ObservedNode node, Question question);
// Returns true if the node does not answer, and may be a control-plane node.
bool mayBeSilentControlPlane(ObservedNode node);
// Finds a node by its address, or by its name in Kubernetes; nullptr if there is no such node.
kj::Maybe<ObservedNode> nodeAt(ObservedCluster cluster, kj::StringPtr address);
kj::Maybe<ObservedNode> nodeNamed(ObservedCluster cluster, kj::StringPtr name);
// Returns the time in ns since 1970, by the node's clock if it is known.
int64_t nowOn(ObservedCluster cluster, ObservedNode node);

// Returns false for the address of a bridge or tunnel that a network plugin made for pods.
bool isOfTheNode(ObservedNode node, rpc::AddressStatusSpec::Reader address);
// Returns the second network if the two overlap.
kj::Maybe<Prefix> overlap(kj::StringPtr one, kj::StringPtr other);
// Returns true if an address of the node is in a subnet of the config for pods or services.
bool hasAddressOfThePods(ObservedNode node);

kj::Maybe<rpc::Service::Reader> serviceOf(ObservedNode node, kj::StringPtr id);
bool isUp(rpc::Service::Reader service);
// Returns the service if it is down; nullptr if it is up or unknown.
kj::Maybe<rpc::Service::Reader> downService(ObservedNode node, kj::StringPtr id);
// Returns the event, or the result of the health check, that best explains why the service is down.
Statement statementOf(rpc::Service::Reader service);
// Returns true if the service was stopped by a request, and not started again.
bool isStopped(rpc::Service::Reader service);
// Returns true if the text of a statement reports an exit with another status than 0.
bool exitedWithError(kj::StringPtr text);
// Returns the newest crash report of the last hour by the node's monotonic clock; nullptr if the
// service has not crashed.
struct RecentCrash {
  kj::String report;  // its id
  Statement statement;
};
kj::Maybe<RecentCrash> recentCrash(rpc::Service::Reader service);
// Returns all problems that a node reports: of its services, of names, time, joining, etcd and
// manifests.
kj::Vector<Statement> complaintsOf(ObservedNode node);
// Returns the reason why a kubelet waits for its certificate; nullptr if it does not wait.
kj::Maybe<Statement> certificateWait(ObservedNode node);

// Selects the newest line of a log that is not older than `within` and contains one of these parts;
// empty if there is no such line. Only klog's lines (I1122 15:41:14.123456 …) have a time and a
// level; other lines count as new.
struct LineQuery {
  std::initializer_list<kj::StringPtr> parts;
  kj::Duration within = kj::maxValue;
  bool errorsOnly = false;
  std::initializer_list<kj::StringPtr> without = {};  // texts that exclude a line
};
kj::StringPtr newestLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log,
                         const LineQuery& query);
// Id of the kernel's log among the logs; only its lines about firmware are kept.
constexpr kj::StringPtr kKernelLog = "kernel"_kj;
kj::StringPtr lastLine(ObservedNode node, kj::StringPtr log);
capnp::List<capnp::Text>::Reader linesOfLog(ObservedNode node, kj::StringPtr log);
bool isRecent(ObservedCluster cluster, ObservedNode node, kj::StringPtr line, kj::Duration within);
// Returns the newest line in which a program of Kubernetes explains its exit.
kj::StringPtr fatalLine(ObservedCluster cluster, ObservedNode node, kj::StringPtr log);
bool isArgumentError(kj::StringPtr line);

// Returns true if each control-plane node that etcd or Kubernetes names was called.
bool allControlPlanesAsked(ObservedCluster cluster);
// Judges the text of ManifestStatus: true if the cluster's manifests were applied, even if extra
// manifests failed.
bool isApplied(kj::StringPtr manifests);
// Returns true if all manifests of the cluster were applied, so that missing objects have existed
// before.
bool hasManifests(ObservedCluster cluster);

// The cause of a failed connection or image pull, by the text of the error.
enum class FailureKind {
  kOther,
  kUnknownName,      // the name servers answered that the name does not exist
  kNoNameServer,     // the name servers did not answer
  kRefused,          // nothing listens at the address
  kClosed,           // a forwarder, or a server that stops, closes the connection
  kUnreachable,      // no route
  kSilent,           // no answer
  kNoTls,            // the other side does not speak TLS
  kCertificate,      // certificate of another CA
  kCertificateTime,  // certificate that has expired or is not yet valid
  kCertificateName,  // certificate for another name or address
  // for pulls only
  kNoSuchImage,
  kReference,  // not a valid image reference
  kCredentials,
  kMirrors,    // no mirror has the image, and the registry itself cannot be reached
  kPlainHttp,  // the registry speaks HTTP, and HTTPS was expected
  kStatus,     // another HTTP status than those above
};
// Returns true if a certificate was not accepted, for any reason.
bool isTrustFailure(FailureKind failure);
// Returns true if the name of the other side was not resolved.
bool isNameFailure(FailureKind failure);
// Returns true if no connection was made: a name, an address, or a server without an answer.
bool isConnectionFailure(FailureKind failure);
FailureKind failureOf(kj::StringPtr text);
FailureKind pullFailureOf(kj::StringPtr text);
kj::StringPtr describe(FailureKind failure);  // Returns a text such as "nothing listens there".

// Host and port of https://host:port/, without brackets; the default port is 443.
struct HostPort {
  kj::String host;
  uint16_t port = 443;
};
HostPort hostOf(kj::StringPtr url);

kj::String dayOf(int64_t seconds);                         // Returns a date such as "2026-11-22".
kj::String validity(int64_t notBefore, int64_t notAfter);  // Returns "valid from … until …".
kj::String clockDifference(int64_t nanoseconds);  // Returns "3 days ahead of" or "2 years behind".
kj::String reasonText(kj::StringPtr reason, kj::StringPtr message);  // Returns "reason: message".

}  // namespace talos::talosctl
