// A join token as stored in etcd (rpc/join-tokens.capnp): its bytes, and its state at a time. Pure.
//
// The bytes come from the members of the control plane, of this version or a later one; other bytes
// are an error, never a token. Fields of a later version are kept when a record is changed.
#pragma once

#include <capnp/message.h>
#include <kj/time.h>

#include "common/etcd/etcd.h"
#include "rpc/etcd.capnp.h"
#include "rpc/join-tokens.capnp.h"

namespace talos::supervisor {

constexpr kj::StringPtr kTokensPrefix = "talos:v1:jointoken:"_kj;
constexpr size_t kMostTokenRecord = 4u << 10;  // octets
constexpr size_t kMostUsedBy = 512;
// Time that a token that cannot be used any more stays in the list: after its end, or its
// revocation.
constexpr int64_t kTokenRemembered = 30 * 24 * 3600;  // s

class TokenRecord {
 public:
  // Makes a new record.
  TokenRecord() : message(kj::heap<capnp::MallocMessageBuilder>(kWords)) {
    message->initRoot<rpc::JoinTokenRecord>();
  }
  // Throws InvalidArgument for bytes that are not a record.
  static TokenRecord parse(kj::StringPtr bytes);

  kj::String bytes() const;
  rpc::JoinTokenRecord::Reader get() const {
    return message->getRoot<rpc::JoinTokenRecord>().asReader();
  }
  rpc::JoinTokenRecord::Builder change() { return message->getRoot<rpc::JoinTokenRecord>(); }

 private:
  static constexpr unsigned kWords = 64;
  mutable kj::Own<capnp::MallocMessageBuilder> message;  // reading changes none of its content
};

// Returns the state; a token that was used and then revoked is revoked.
rpc::Etcd::JoinToken::State stateOf(rpc::JoinTokenRecord::Reader record, int64_t now);
// Returns RFC 3339; empty for 0.
kj::String secondsText(int64_t at);
void fillToken(rpc::Etcd::JoinToken::Builder out, kj::StringPtr id,
               rpc::JoinTokenRecord::Reader record, int64_t now);
// Fills in the result for a caller with this digest, compared in a time that reveals nothing.
// Without a record, or with another digest, the result is unknown, and nothing else.
void fillFound(rpc::JoinTokens::Found::Builder out, kj::Maybe<const TokenRecord&> record,
               kj::ArrayPtr<const kj::byte> digest, int64_t now);
// Returns since when the token cannot be used any more; nullptr while it is unused, or used: its
// worker sends it again when its certificate has expired.
kj::Maybe<int64_t> endedAt(rpc::JoinTokenRecord::Reader record, int64_t now);
// Returns true if the record is not needed any more.
bool isForgotten(rpc::JoinTokenRecord::Reader record, int64_t now);

}  // namespace talos::supervisor
