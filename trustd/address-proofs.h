// Proofs that a caller has called from an address, for a node that wants several of its addresses
// in one certificate.
//
// A proof is given to whoever calls with the token, over TLS, and proves the address of that call:
// its holder could have had a certificate for that address, with any key, by the same call. So it
// needs no owner; its time is short because addresses move. It holds the address and the end of its
// time, authenticated by a key that only this process has (HMAC-SHA256): nothing is stored, and
// after a restart the proofs of before are not valid any more. A caller that gets none is where it
// was without them.
#pragma once

#include <kj/array.h>
#include <kj/time.h>

#include "common/net/ip.h"

namespace talos::trustd {

class AddressProofs {
 public:
  static constexpr auto kLifetime = 1 * kj::MINUTES;

  explicit AddressProofs(const kj::MonotonicClock& clock);
  KJ_DISALLOW_COPY_AND_MOVE(AddressProofs);

  kj::Array<kj::byte> make(const Ip& caller) const;
  // The address that it proves. None: it is not one of this process, or its time is over.
  kj::Maybe<Ip> check(kj::ArrayPtr<const kj::byte> proof) const;

 private:
  const kj::MonotonicClock& clock;
  kj::Array<kj::byte> key;
};

}  // namespace talos::trustd
