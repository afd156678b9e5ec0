// Observes the end of each call of one connection, for counters.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos {

class CallObserver {
 public:
  virtual ~CallObserver() noexcept(false) = default;
  // Reports that a call of Cap'n Proto has ended. `result`: OK, the kind of an error
  // (common/base/error.h), or Cancelled for a call that its caller has dropped or that is lost with
  // the connection.
  virtual void ended(uint64_t interfaceId, uint16_t methodId, kj::StringPtr result,
                     kj::Duration duration) = 0;
  // Describes a call that begins, for the list of calls under way: "Machine.version for admin
  // (10.0.0.7)".
  virtual kj::String describe(uint64_t interfaceId, uint16_t methodId) = 0;
  // Reports that a call of gRPC has ended, by its path.
  virtual void ended(kj::StringPtr path, kj::StringPtr result, kj::Duration duration) = 0;

  static constexpr kj::StringPtr kOk = "OK"_kj, kCancelled = "Cancelled"_kj;
};

}  // namespace talos
