// Proofs that a caller has called from an address, for a node that wants several of its addresses
// in one certificate.
//
// Each caller with the token gets a proof, over TLS, that proves the address of this call. Its
// holder could have had a certificate for this address, with any key, by the same call, so the
// proof need not be bound to an owner; it is short-lived because addresses move. It holds the
// address and its end of validity, authenticated by a key that only this process has (HMAC-SHA256):
// nothing is stored, and a restart invalidates earlier proofs. A caller that gets no proof loses
// nothing but the additional address.
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
  // Returns the address that the proof proves; nullptr if this process did not issue it, or it has
  // expired.
  kj::Maybe<Ip> check(kj::ArrayPtr<const kj::byte> proof) const;

 private:
  const kj::MonotonicClock& clock;
  kj::Array<kj::byte> key;
};

}  // namespace talos::trustd
