// Parts of messages of a node's programs by which `talosctl diagnose` recognises its state. The
// program that writes a message makes it of the constant that diagnose looks for, so the text can
// be changed here without separating the two; node-messages-test.cc of talosctl/diagnose fails for
// a constant that only one of them uses.
#pragma once

#include <kj/string.h>

namespace talos::messages {

// machined: events of services.
constexpr kj::StringPtr kServiceStopped = "Service stopped"_kj;
constexpr kj::StringPtr kExitedWithStatus = "exited with status "_kj;  // and the number
constexpr kj::StringPtr kCrashReport = "; crash report "_kj;  // after the signal; and the id
constexpr kj::StringPtr kWaitingForCertificate = "Waiting for its certificate: "_kj;  // and why
// machined: pulls of images.
constexpr kj::StringPtr kCannotPull = "cannot pull \""_kj;  // and the image and a quote
constexpr kj::StringPtr kInvalidReference = "not a valid image reference"_kj;
// machined: the log of controllers.
constexpr kj::StringPtr kControllerFailed = "controller failed: "_kj;

// Names of servers, wherever they are resolved.
constexpr kj::StringPtr kCannotResolve = "cannot resolve "_kj;

// networkd: problems of links.
constexpr kj::StringPtr kNoCarrier = ": no carrier"_kj;  // after the link

// trustd: an answer to a worker.
constexpr kj::StringPtr kWrongToken = "wrong token"_kj;

// etcd-supervisor: EtcdStatus.
constexpr kj::StringPtr kWaitingForCluster = "waiting for a cluster"_kj;
constexpr kj::StringPtr kCannotJoin = "cannot join yet: "_kj;         // and why
constexpr kj::StringPtr kNotVoting = "not a voting member yet: "_kj;  // and why
constexpr kj::StringPtr kNameTaken = ", has the name "_kj;            // after the other member
constexpr kj::StringPtr kRemovedByOthers = "the other members have removed this one"_kj;

// kubed: KubeletJoinStatus. The name of the request is between the first two.
constexpr kj::StringPtr kTheRequest = "the request "_kj;
constexpr kj::StringPtr kNotApproved = " is not approved yet"_kj;
constexpr kj::StringPtr kUnknownBootstrapToken = " does not know the bootstrap token yet"_kj;
// kubed: ManifestStatus.
constexpr kj::StringPtr kApplied = "applied"_kj;
constexpr kj::StringPtr kWaitingFor = "waiting for "_kj;  // and for what
constexpr kj::StringPtr kSelfHosted = "the control plane is self-hosted"_kj;
constexpr kj::StringPtr kCannotReadManifest = "cannot read the manifest "_kj;  // and the manifest
// Between messages that are reported together.
constexpr kj::StringPtr kNextMessage = "; "_kj;

}  // namespace talos::messages
