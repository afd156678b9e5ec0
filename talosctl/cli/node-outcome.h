// Decides from a node's answers, or from their absence, whether its boot, reboot or shutdown is
// done. Pure.
#pragma once

#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"

namespace talos::talosctl {

enum class Verdict { kWait, kDone, kFailed };
struct Judgement {
  Verdict verdict;
  kj::String text;  // state for the progress line, or the error
};

class Outcome {
 public:
  // kReset: the node has no config afterwards. It may boot again, or no longer answer this client.
  enum class Kind { kBoot, kReboot, kShutdown, kReset };
  Outcome(Kind kind, kj::StringPtr bootId) : kind(kind), bootId(kj::str(bootId)) {}

  // Judges an answer of the node.
  Judgement answered(rpc::Version::Reader version, rpc::Status::Reader status,
                     capnp::List<rpc::Service>::Reader services);
  // Judges a missing answer. One lost answer proves nothing: apid may have stopped before the
  // machine.
  Judgement silent();
  // Judges a failure to reach any endpoint: this proves nothing about a node that is not an
  // endpoint itself.
  Judgement unreached() const { return {Verdict::kWait, kj::str("no endpoint answers")}; }

 private:
  static constexpr unsigned kGone = 3;  // lost answers in a row that prove that the node is gone
  Kind kind;
  kj::String bootId;
  unsigned missedAnswers = 0;
  kj::StringPtr arrived() const;
};

// Decides from a node's answers, or from missing answers, whether its upgrade or rollback has
// ended. Pure.

// `before`: the boot during which the upgrade was requested; `live`: without a reboot.
Judgement judgeUpgrade(kj::StringPtr before, kj::StringPtr bootId,
                       rpc::UpgradeStatusSpec::Reader status, bool live = false);

}  // namespace talos::talosctl
