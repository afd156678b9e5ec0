#include "common/etcd/etcd-messages.h"

namespace talos::etcd {
namespace {

constexpr int64_t kMostSeconds = int64_t(10) * 365 * 86400;  // etcd's own limit is nearly 300 years

std::string bytesOf(kj::StringPtr text) {
  return std::string(text.begin(), text.size());
}

template <typename Message>
void setKeys(Message& message, const Keys& keys) {
  if (!keys.prefix) {
    message.set_key(bytesOf(keys.key));
    return;
  }
  // "\0" is the first key that there can be.
  message.set_key(keys.key.size() == 0 ? std::string(1, '\0') : bytesOf(keys.key));
  message.set_range_end(bytesOf(endOfPrefix(keys.key)));
}

template <typename List>
kj::Array<kj::String> toTexts(const List& list) {
  kj::Vector<kj::String> result(list.size());
  for (auto& text : list) result.add(toText(text));
  return result.releaseAsArray();
}

KeyValue fromKeyValue(const pb::KeyValue& kv) {
  return {.key = toText(kv.key()),
          .value = toText(kv.value()),
          .createRevision = kv.create_revision(),
          .modRevision = kv.mod_revision(),
          .version = kv.version(),
          .lease = kv.lease()};
}

pb::Compare::Target targetOf(Compare::What what) {
  switch (what) {
    case Compare::What::kVersion:
      return pb::Compare::VERSION;
    case Compare::What::kCreateRevision:
      return pb::Compare::CREATE;
    case Compare::What::kModRevision:
      return pb::Compare::MOD;
    case Compare::What::kLease:
      return pb::Compare::LEASE;
    case Compare::What::kValue:
      return pb::Compare::VALUE;
  }
  KJ_UNREACHABLE;
}

pb::Compare::Result resultOf(Compare::Is is) {
  switch (is) {
    case Compare::Is::kEqual:
      return pb::Compare::EQUAL;
    case Compare::Is::kGreater:
      return pb::Compare::GREATER;
    case Compare::Is::kLess:
      return pb::Compare::LESS;
    case Compare::Is::kNotEqual:
      return pb::Compare::NOT_EQUAL;
  }
  KJ_UNREACHABLE;
}

void setCompare(pb::Compare& to, const Compare& from) {
  to.set_key(bytesOf(from.key));
  to.set_target(targetOf(from.what));
  to.set_result(resultOf(from.is));
  switch (from.what) {
    case Compare::What::kVersion:
      return to.set_version(from.number);
    case Compare::What::kCreateRevision:
      return to.set_create_revision(from.number);
    case Compare::What::kModRevision:
      return to.set_mod_revision(from.number);
    case Compare::What::kLease:
      return to.set_lease(from.number);
    case Compare::What::kValue:
      return to.set_value(bytesOf(from.value));
  }
}

void setOperation(pb::RequestOp& to, const Operation& from) {
  KJ_SWITCH_ONEOF(from) {
    KJ_CASE_ONEOF(put, Put) {
      *to.mutable_put() = toMessage(put);
    }
    KJ_CASE_ONEOF(remove, Delete) {
      *to.mutable_delete_range() = toMessage(remove);
    }
    KJ_CASE_ONEOF(range, Range) {
      *to.mutable_range() = toMessage(range);
    }
  }
}

Alarm::Type alarmType(pb::AlarmType type) {
  switch (type) {
    case pb::ALARM_NOSPACE:
      return Alarm::Type::kNoSpace;
    case pb::ALARM_CORRUPT:
      return Alarm::Type::kCorrupt;
    default:
      return Alarm::Type::kNone;
  }
}

}  // namespace

kj::String toText(const std::string& text) {
  return kj::heapString(text.data(), text.size());
}

kj::Duration secondsOf(int64_t seconds) {
  return kj::max(int64_t(0), kj::min(seconds, kMostSeconds)) * kj::SECONDS;
}

kj::String endOfPrefix(kj::StringPtr prefix) {
  auto end = kj::heapString(prefix);
  for (size_t i = end.size(); i > 0; --i) {
    auto& last = end[i - 1];
    if (static_cast<unsigned char>(last) == 0xff) continue;
    ++last;
    return kj::heapString(end.slice(0, i));
  }
  return kj::heapString("\0", 1);
}

ErrorKind kindOfWords(ErrorKind kind, kj::StringPtr words) {
  // The status "out of range" is also the answer to a revision in the future.
  return words.endsWith("required revision has been compacted") ? ErrorKind::kConflict : kind;
}

pb::RangeRequest toMessage(const Range& from) {
  pb::RangeRequest to;
  setKeys(to, from.keys);
  to.set_limit(from.limit);
  to.set_revision(from.revision);
  // Without an order they come by key, ascending.
  if (from.order != Range::Order::kKey || from.descending) {
    to.set_sort_order(from.descending ? pb::RangeRequest::DESCEND : pb::RangeRequest::ASCEND);
  }
  if (from.order == Range::Order::kCreateRevision) to.set_sort_target(pb::RangeRequest::CREATE);
  if (from.order == Range::Order::kModRevision) to.set_sort_target(pb::RangeRequest::MOD);
  to.set_serializable(from.serializable);
  to.set_keys_only(from.keysOnly);
  to.set_count_only(from.countOnly);
  to.set_max_create_revision(from.maxCreateRevision);
  return to;
}

pb::PutRequest toMessage(const Put& from) {
  pb::PutRequest to;
  to.set_key(bytesOf(from.key));
  to.set_value(bytesOf(from.value));
  to.set_lease(from.lease);
  return to;
}

pb::DeleteRangeRequest toMessage(const Delete& from) {
  pb::DeleteRangeRequest to;
  setKeys(to, from.keys);
  return to;
}

pb::TxnRequest toMessage(const Txn& from) {
  pb::TxnRequest to;
  for (auto& c : from.compare) setCompare(*to.add_compare(), c);
  for (auto& o : from.then) setOperation(*to.add_success(), o);
  for (auto& o : from.otherwise) setOperation(*to.add_failure(), o);
  return to;
}

pb::WatchRequest toMessage(const WatchRequest& from) {
  pb::WatchRequest to;
  auto& create = *to.mutable_create();
  setKeys(create, from.keys);
  create.set_start_revision(from.from);
  if (!from.puts) create.add_filters(pb::WatchCreateRequest::NOPUT);
  if (!from.deletes) create.add_filters(pb::WatchCreateRequest::NODELETE);
  create.set_fragment(true);  // common/grpc takes no message of any length
  return to;
}

RangeResult fromMessage(const pb::RangeResponse& from) {
  kj::Vector<KeyValue> kvs(from.kvs_size());
  for (auto& kv : from.kvs()) kvs.add(fromKeyValue(kv));
  return {.revision = from.header().revision(),
          .kvs = kvs.releaseAsArray(),
          .count = from.count(),
          .more = from.more()};
}

PutResult fromMessage(const pb::PutResponse& from) {
  return {from.header().revision()};
}

DeleteResult fromMessage(const pb::DeleteRangeResponse& from) {
  return {from.header().revision(), from.deleted()};
}

TxnResult fromMessage(const pb::TxnResponse& from) {
  TxnResult to;
  to.revision = from.header().revision();
  to.succeeded = from.succeeded();
  kj::Vector<OperationResult> results(from.responses_size());
  for (auto& r : from.responses()) {
    auto& result = results.add();
    if (r.has_range()) {
      result.init<RangeResult>(fromMessage(r.range())).revision = to.revision;
    } else if (r.has_delete_range()) {
      result.init<DeleteResult>(fromMessage(r.delete_range())).revision = to.revision;
    } else {
      result.init<PutResult>().revision = to.revision;
    }
  }
  to.results = results.releaseAsArray();
  return to;
}

Events fromMessage(const pb::WatchResponse& from) {
  kj::Vector<Event> events(from.events_size());
  for (auto& e : from.events()) {
    events.add(Event{e.type() == pb::Event::DELETE, fromKeyValue(e.kv())});
  }
  return {from.header().revision(), events.releaseAsArray()};
}

Member fromMessage(const pb::Member& from) {
  return {.id = from.id(),
          .name = toText(from.name()),
          .peerUrls = toTexts(from.peer_urls()),
          .clientUrls = toTexts(from.client_urls()),
          .learner = from.is_learner()};
}

Status fromMessage(const pb::StatusResponse& from) {
  Status to;
  to.member = from.header().member_id();
  to.cluster = from.header().cluster_id();
  to.version = toText(from.version());
  to.dbSize = from.db_size();
  to.dbSizeInUse = from.db_size_in_use();
  to.leader = from.leader();
  to.raftIndex = from.raft_index();
  to.raftTerm = from.raft_term();
  to.raftAppliedIndex = from.raft_applied_index();
  to.revision = from.header().revision();
  to.learner = from.is_learner();
  to.errors = toTexts(from.errors());
  return to;
}

kj::Array<Alarm> fromMessage(const pb::AlarmResponse& from) {
  kj::Vector<Alarm> alarms(from.alarms_size());
  for (auto& a : from.alarms()) alarms.add(Alarm{a.member_id(), alarmType(a.alarm())});
  return alarms.releaseAsArray();
}

}  // namespace talos::etcd
