// Between the structs of etcd.h and the messages of etcd.proto. Pure; every answer, whatever its
// bytes say, becomes a struct: what etcd may add later (a type of alarm) is the closest that there
// is.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"
#include "common/etcd/etcd.pb.h"

namespace talos::etcd {

// The first key behind all that begin with `prefix`; for a prefix that has none, "\0", which means
// the end of all keys.
kj::String endOfPrefix(kj::StringPtr prefix);

// The error kind of a status (common/grpc), refined by etcd's message.
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
LeaseStatus fromMessage(const pb::LeaseTimeToLiveResponse& answer);

kj::String toText(const std::string& text);
kj::Duration secondsOf(int64_t seconds);  // none is negative or longer than some years

template <typename List>
kj::Array<Member> toMembers(const List& members) {
  kj::Vector<Member> result(members.size());
  for (auto& m : members) result.add(fromMessage(m));
  return result.releaseAsArray();
}

}  // namespace talos::etcd
