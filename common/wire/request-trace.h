// Makes the calls of one request visible in the program that serves them. Each call is one of the
// program's waits until it is answered (common/base/waits.h, so in `talosctl debug stack` and in
// reports of crashes), and lines of the log name the request. A call that changes something has a
// line when it begins and when it ends; the lines about its effects are between them. A call that
// fails by no fault of its caller, or that the caller gives up after some seconds, has a line too,
// in a bounded number; all other calls only at level debug. Parameters are not written: they may be
// secret.
//
// A membrane: capabilities that a call returns are within it. Calls that return a capability are
// not shown, as they only lead to other calls. Keeps no state.
#pragma once

#include <capnp/capability.h>
#include <kj/time.h>

#include "common/base/log.h"
#include "common/wire/log-line-limit.h"
#include "common/wire/request-id.h"
#include "common/wire/roles.h"

namespace talos {

class RequestTrace {
 public:
  // Keeps a line of the program's log: "level=info message=…", without a time and a newline.
  using Keep = kj::Function<void(kj::StringPtr line)>;

  // `rules` are the rules of the interfaces of the capabilities. Both references must outlive this
  // object, and this object must outlive all that traced() returned. Without `keep`, lines go to
  // standard error, as those of common/base/log.h do.
  RequestTrace(const kj::MonotonicClock& clock, const Rules& rules, kj::Maybe<Keep> keep = nullptr)
      : clock(clock),
        rules(rules),
        keep(kj::mv(keep)),
        failures(clock, {.perPeer = 5, .subject = "request"_kj},
                 [this](auto level, auto message, auto fields) { write(level, message, fields); }) {
  }
  KJ_DISALLOW_COPY_AND_MOVE(RequestTrace);

  // Does the same for one request; without a valid id, returns `inner` itself.
  template <typename T>
  typename T::Client traced(typename T::Client inner, kj::StringPtr request) {
    if (!isRequestId(request)) return inner;
    return wrap(kj::mv(inner), request).template castAs<T>();
  }

 private:
  class Policy;
  class Call;
  const kj::MonotonicClock& clock;
  const Rules& rules;
  kj::Maybe<Keep> keep;
  LineLimit failures;  // counted by request

  void write(log::Level level, kj::StringPtr message, std::initializer_list<log::Field> fields);
  capnp::Capability::Client wrap(capnp::Capability::Client inner, kj::StringPtr request);
};

}  // namespace talos
