// Sees the calls of one connection end: for counters.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos {

class CallObserver {
 public:
  virtual ~CallObserver() noexcept(false) = default;
  // A call of Cap'n Proto. `result`: OK, the kind of an error (common/base/error.h), or Cancelled
  // for one that its caller has dropped or that is lost with the connection.
  virtual void ended(uint64_t interfaceId, uint16_t methodId, kj::StringPtr result,
                     kj::Duration duration) = 0;
  // A call that begins: "Machine.version for admin (10.0.0.7)", for who looks at those under way.
  virtual kj::String describe(uint64_t interfaceId, uint16_t methodId) = 0;
  // A call of gRPC, by its path.
  virtual void ended(kj::StringPtr path, kj::StringPtr result, kj::Duration duration) = 0;

  static constexpr kj::StringPtr kOk = "OK"_kj, kCancelled = "Cancelled"_kj;
};

}  // namespace talos
