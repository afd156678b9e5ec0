// Log lines of a controller that runs in its own daemon instead of in machined.
//
// They are lines of the daemon's log with the field `controller`, and have the words of the
// controllers of machined. machined copies them into the log `controller-runtime`
// (machined/logs/controller-lines.h), where an operator looks for them. Each line reports an event;
// no state is kept.
#pragma once

#include <kj/string.h>
#include <kj/time.h>

#include "common/base/log.h"

namespace talos {

class ControllerLog {
 public:
  explicit ControllerLog(kj::StringPtr name) : name(name) {}  // must outlive this object
  KJ_DISALLOW_COPY_AND_MOVE(ControllerLog);

  void started() const { info("controller starting"); }
  void info(kj::StringPtr message) const;
  // Writes an error, and the same error again after a minute: a log without new lines means
  // success.
  void failed(kj::StringPtr error, kj::TimePoint now);
  void succeeded() { last = nullptr; }

 private:
  kj::StringPtr name;
  kj::String last;  // last error; empty if none
  kj::TimePoint written = kj::origin<kj::TimePoint>();
};

// Fields of such a line, as controllers of machined have them. The time is in UTC: 2021/03/09
// 13:57:11.
struct ControllerLine {
  kj::String time, controller, message;
};
// Returns nullptr if no controller wrote the line. Accepts any bytes, and has no side effects.
kj::Maybe<ControllerLine> readControllerLine(kj::ArrayPtr<const char> line);

}  // namespace talos
