// A join token as etcd has it (rpc/join-tokens.capnp): its bytes, and its state at a time. Pure.
//
// The bytes come from the members of the control plane, of this version or a later one; others are
// an error, never a token. Fields of a later version are kept when a record is changed.
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
// How long one stays in the list that nobody can use any more: after its end, or its revocation.
constexpr int64_t kTokenRemembered = 30 * 24 * 3600;  // s

class TokenRecord {
 public:
  // A new one.
  TokenRecord() : message(kj::heap<capnp::MallocMessageBuilder>(kWords)) {
    message->initRoot<rpc::JoinTokenRecord>();
  }
  // InvalidArgument for bytes that are none.
  static TokenRecord parse(kj::StringPtr bytes);

  kj::String bytes() const;
  rpc::JoinTokenRecord::Reader get() const {
    return message->getRoot<rpc::JoinTokenRecord>().asReader();
  }
  rpc::JoinTokenRecord::Builder change() { return message->getRoot<rpc::JoinTokenRecord>(); }

 private:
  static constexpr unsigned kWords = 64;
  mutable kj::Own<capnp::MallocMessageBuilder> message;  // reading changes nothing of it
};

// Of a token that was used and then revoked: revoked.
rpc::Etcd::JoinToken::State stateOf(rpc::JoinTokenRecord::Reader record, int64_t now);
// RFC 3339; of 0 empty.
kj::String secondsText(int64_t at);
void fillToken(rpc::Etcd::JoinToken::Builder out, kj::StringPtr id,
               rpc::JoinTokenRecord::Reader record, int64_t now);
// For a caller with this digest, compared in a time that says nothing. No record, or another
// digest: unknown, and nothing else.
void fillFound(rpc::JoinTokens::Found::Builder out, kj::Maybe<const TokenRecord&> record,
               kj::ArrayPtr<const kj::byte> digest, int64_t now);
// Since when nobody can use it any more; none: it is unused, or used: its worker asks with it again
// when its certificate has expired.
kj::Maybe<int64_t> endedAt(rpc::JoinTokenRecord::Reader record, int64_t now);
// True when nobody needs to know of it any more.
bool isForgotten(rpc::JoinTokenRecord::Reader record, int64_t now);

}  // namespace talos::supervisor
