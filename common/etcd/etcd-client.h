// Client of a real etcd: one server's client port, by gRPC over one connection of mutual TLS, which
// carries calls, watches and snapshots side by side.
//
// The connection is dialled when a call needs it, and again after it was lost; for another server
// the caller creates another client. Pings over the connection detect a server that falls silent
// (its node lost power, a cable was pulled): everything open on the connection then rejects with
// Unavailable, at the latest after `Deadlines::silence`. No state survives a crash.
//
// etcd's answers are foreign bytes, although from a server that has proved its identity:
// common/grpc bounds their lengths, and their numbers never size or index memory.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include "common/etcd/etcd.h"
#include "common/net/ip.h"
#include "common/tls/tls.h"

namespace talos::etcd {

class EtcdClient final : public Etcd {
 public:
  // `credentials` is used for each new connection, so a replaced certificate is used from the next
  // connection on. The server's certificate must name the address.
  EtcdClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, TlsEndpoint& credentials,
             Endpoint server, Deadlines deadlines = {});
  // Makes the client's connections with `dial`, for tests.
  using Dial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()>;
  EtcdClient(kj::Timer& timer, kj::String name, Dial dial, Deadlines deadlines = {});
  ~EtcdClient() noexcept(false) override;
  KJ_DISALLOW_COPY_AND_MOVE(EtcdClient);

  kj::StringPtr name() const override;
  kj::Promise<RangeResult> range(Range request) override;
  kj::Promise<PutResult> put(Put request) override;
  kj::Promise<DeleteResult> remove(Delete request) override;
  kj::Promise<TxnResult> txn(Txn request) override;
  kj::Promise<kj::Own<Watch>> watch(WatchRequest request) override;
  kj::Promise<Lease> grant(kj::Duration ttl) override;
  kj::Promise<Lease> keepAlive(LeaseId id) override;
  kj::Promise<void> revoke(LeaseId id) override;
  kj::Promise<MemberList> members(bool linearizable = true) override;
  kj::Promise<MemberAdded> addMember(kj::Array<kj::String> peerUrls, bool learner) override;
  kj::Promise<kj::Array<Member>> removeMember(MemberId id) override;
  kj::Promise<kj::Array<Member>> updateMember(MemberId id, kj::Array<kj::String> peerUrls) override;
  kj::Promise<kj::Array<Member>> promoteMember(MemberId id) override;
  kj::Promise<Status> status() override;
  kj::Promise<void> moveLeader(MemberId to) override;
  kj::Promise<kj::Array<Alarm>> alarms() override;
  kj::Promise<kj::Array<Alarm>> disarm(Alarm alarm) override;
  kj::Promise<void> defragment() override;
  kj::Promise<uint64_t> snapshot(SnapshotSink sink) override;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::etcd
