// Decides from a node's answers, or from their absence, whether its boot, reboot or shutdown is
// done. Pure.
#pragma once

#include "rpc/machine.capnp.h"

namespace talos::talosctl {

enum class Verdict { kWait, kDone, kFailed };
struct Judgement {
  Verdict verdict;
  kj::String text;  // for the progress line, or why it failed
};

class Outcome {
 public:
  // kReset: it has no config afterwards. It may come up again, or not answer this client any more.
  enum class Kind { kBoot, kReboot, kShutdown, kReset };
  Outcome(Kind kind, kj::StringPtr bootId) : kind(kind), bootId(kj::str(bootId)) {}

  // It answered.
  Judgement answered(rpc::Version::Reader version, rpc::Status::Reader status,
                     capnp::List<rpc::Service>::Reader services);
  // It did not answer. One lost answer proves nothing: apid may have stopped before the machine.
  Judgement silent();
  // It was not asked, for no endpoint answers: that proves nothing of a node that is none itself.
  Judgement unreached() const { return {Verdict::kWait, kj::str("no endpoint answers")}; }

 private:
  static constexpr unsigned kGone = 3;  // lost answers in a row
  Kind kind;
  kj::String bootId;
  unsigned silences = 0;
  kj::StringPtr arrived() const;
};

}  // namespace talos::talosctl
