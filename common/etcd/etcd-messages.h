// Converts between the structs of etcd.h and the messages of etcd.proto. Pure; every answer becomes
// a struct, whatever its bytes are: a value that a later etcd may add (a type of alarm) becomes the
// closest known one.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"
#include "common/etcd/etcd.pb.h"

namespace talos::etcd {

// Returns the first key after all keys that begin with `prefix`; "\0", which means the end of all
// keys, if no such key exists.
kj::String endOfPrefix(kj::StringPtr prefix);

// Returns the error kind of a status (common/grpc), refined by etcd's message.
ErrorKind kindOfWords(ErrorKind kind, kj::StringPtr words);

pb::RangeRequest toMessage(const Range& request);
pb::PutRequest toMessage(const Put& request);
pb::DeleteRangeRequest toMessage(const Delete& request);
pb::TxnRequest toMessage(const Txn& request);
pb::WatchRequest toMessage(const WatchRequest& request);

RangeResult fromMessage(const pb::RangeResponse& answer);
PutResult fromMessage(const pb::PutResponse& answer);
DeleteResult fromMessage(const pb::DeleteRangeResponse& answer);
TxnResult fromMessage(const pb::TxnResponse& answer);
Events fromMessage(const pb::WatchResponse& answer);
Member fromMessage(const pb::Member& member);
Status fromMessage(const pb::StatusResponse& answer);
kj::Array<Alarm> fromMessage(const pb::AlarmResponse& answer);

kj::String toText(const std::string& text);
kj::Duration secondsOf(int64_t seconds);  // never negative, at most some years

template <typename List>
kj::Array<Member> toMembers(const List& members) {
  kj::Vector<Member> result(members.size());
  for (auto& m : members) result.add(fromMessage(m));
  return result.releaseAsArray();
}

}  // namespace talos::etcd
