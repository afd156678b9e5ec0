// Parts of messages of a node's programs by which `talosctl diagnose` recognises the node's state.
// The program that writes a message builds it from the constant that diagnose searches for, so a
// change of the text here reaches both; node-messages-test.cc of talosctl/diagnose fails for a
// constant that only one of them uses.
#pragma once

#include <kj/string.h>

namespace talos::messages {

// machined: events of services.
constexpr kj::StringPtr kServiceStopped = "Service stopped"_kj;
constexpr kj::StringPtr kExitedWithStatus = "exited with status "_kj;  // followed by the number
// after the signal; followed by the id
constexpr kj::StringPtr kCrashReport = "; crash report "_kj;
// followed by the cause
constexpr kj::StringPtr kWaitingForCertificate = "Waiting for its certificate: "_kj;
// machined: pulls of images.
constexpr kj::StringPtr kCannotPull = "cannot pull \""_kj;  // followed by the image and a quote
constexpr kj::StringPtr kInvalidReference = "not a valid image reference"_kj;
// machined: encrypted volumes. Followed by the device.
constexpr kj::StringPtr kNoKeyOpens = "no key of the config opens "_kj;
// machined: the clock. Followed by the differences.
constexpr kj::StringPtr kTimeServersDisagree = "the time servers disagree: "_kj;
// machined: problems of a node, in its status.
constexpr kj::StringPtr kNetworkProblem =
    "cannot set up the network: "_kj;  // followed by the cause
constexpr kj::StringPtr kNotInEffect =
    "stored, but not in effect: "_kj;  // followed by the part of the config, and the cause
// apid: a call of a node without a config. Follows the name of the method.
constexpr kj::StringPtr kInMaintenance =
    " is not available in maintenance mode: this node has no config yet"_kj;
constexpr kj::StringPtr kNoNode = "Kubernetes has no Node object of this node"_kj;
// machined: the log of controllers.
constexpr kj::StringPtr kControllerFailed = "controller failed: "_kj;

// Names of servers, wherever they are resolved.
constexpr kj::StringPtr kCannotResolve = "cannot resolve "_kj;

// networkd: problems of links.
constexpr kj::StringPtr kNoCarrier = ": no carrier"_kj;  // after the link

// trustd: answers to a worker.
constexpr kj::StringPtr kWrongToken = "wrong token"_kj;
// followed by the address; hides the reason of the failures
constexpr kj::StringPtr kTooManyFailed = "too many failed requests from "_kj;
constexpr kj::StringPtr kJoinToken = "the join token "_kj;           // followed by the id
constexpr kj::StringPtr kTokenOfName = " is for the host name "_kj;  // after the id
constexpr kj::StringPtr kUnverifiedToken = "cannot verify the join token: "_kj;

// apid: JoinStatus. Before the times of a certificate that is not valid now, and the error itself.
constexpr kj::StringPtr kOwnCertificate = "the certificate is valid from "_kj;
constexpr kj::StringPtr kNoToken = "the config has no machine.token"_kj;
constexpr kj::StringPtr kNoControlPlane = "the config names no control plane"_kj;
constexpr kj::StringPtr kNotOfControlPlane = "is not that of a control-plane node"_kj;
// All servers: a call that is denied. Followed by the role.
constexpr kj::StringPtr kNeedsRole = " needs the role "_kj;

// etcd-supervisor: EtcdStatus.
constexpr kj::StringPtr kWaitingForCluster = "waiting for a cluster"_kj;
constexpr kj::StringPtr kCannotJoin = "cannot join yet: "_kj;         // followed by the cause
constexpr kj::StringPtr kNotVoting = "not a voting member yet: "_kj;  // followed by the cause
constexpr kj::StringPtr kNameTaken = ", has the name "_kj;            // after the other member
constexpr kj::StringPtr kRemovedByOthers = "the other members have removed this one"_kj;

// kubed: KubeletJoinStatus. The name of the request is between the first two.
constexpr kj::StringPtr kTheRequest = "the request "_kj;
constexpr kj::StringPtr kNotApproved = " is not approved yet"_kj;
constexpr kj::StringPtr kUnknownBootstrapToken = " does not know the bootstrap token yet"_kj;
// kubed: ManifestStatus.
constexpr kj::StringPtr kApplied = "applied"_kj;
constexpr kj::StringPtr kWaitingFor = "waiting for "_kj;  // followed by a name
constexpr kj::StringPtr kSelfHosted = "the control plane is self-hosted"_kj;
// followed by the name of the manifest
constexpr kj::StringPtr kCannotReadManifest = "cannot read the manifest "_kj;
// Separator of messages that are reported together.
constexpr kj::StringPtr kNextMessage = "; "_kj;

}  // namespace talos::messages
