#include "common/etcd/etcd-client.h"

#include <kj/debug.h>
#include <netinet/tcp.h>
#include <string.h>

#include "common/base/within.h"
#include "common/etcd/etcd-messages.h"
#include "common/grpc/grpc-client.h"

namespace talos::etcd {
namespace {

// Returns "etcd at 10.5.0.2:2379: etcdserver: no leader"; texts of common/grpc have the name
// already.
kj::Exception namedError(kj::StringPtr name, const kj::Exception& e) {
  auto words = messageOf(e);
  // With TLS 1.3 a server refuses a certificate after the client has begun to talk.
  if (strstr(words.cStr(), "SSL routines") != nullptr &&
      strstr(words.cStr(), " alert ") != nullptr) {
    return error(ErrorKind::kUnauthenticated,
                 kj::str(name, " refused this node's certificate: ", tlsErrorText(e)));
  }
  auto kind = kindOfWords(kindOf(e), words);
  if (strstr(words.cStr(), name.cStr()) != nullptr) return error(kind, words);
  return error(kind, kj::str(name, ": ", words));
}

// Returns "Connection refused" for "connect(): Connection refused".
kj::String connectCause(const kj::Exception& e) {
  auto text = messageOf(e);
  constexpr kj::StringPtr kMark = "(): "_kj;
  for (size_t i = 0; i + kMark.size() < text.size(); ++i) {
    if (text.slice(i).startsWith(kMark)) return kj::str(text.slice(i + kMark.size()));
  }
  return text;
}

kj::Promise<kj::Own<kj::AsyncIoStream>> dialServer(kj::LowLevelAsyncIoProvider& lowLevel,
                                                   TlsEndpoint& credentials, Endpoint server) {
  auto at = server.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  int on = 1;  // requests are small and a caller waits for each
  KJ_SYSCALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  auto stream = co_await lowLevel.wrapConnectingSocketFd(kj::mv(owned), at.get(), at.size());
  // A server written in Go speaks HTTP/2 over TLS only if the client offers it by ALPN.
  co_return co_await credentials.connectWithAlpn("h2", kj::mv(stream), server.address.toString());
}

EtcdClient::Dial dialer(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        TlsEndpoint& credentials, Endpoint server, kj::Duration deadline) {
  return [&lowLevel, &timer, &credentials, server, deadline]() {
    return within(timer, deadline, dialServer(lowLevel, credentials, server),
                  kj::str("no answer within ", deadline), ErrorKind::kUnavailable)
        .catch_([](kj::Exception&& e) -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
          auto kind = kindOf(e);
          return error(kind == ErrorKind::kInternal ? ErrorKind::kUnavailable : kind,
                       connectCause(e));
        });
  };
}

class WatchImpl final : public Watch {
 public:
  WatchImpl(kj::String name, kj::Own<grpc::Call> call) : name(kj::mv(name)), call(kj::mv(call)) {}

  kj::Promise<void> begin(WatchRequest request) {
    auto writing = call->write(grpc::encode(toMessage(request)));
    co_await writing;
    auto answer = co_await read();
    if (!answer.created()) {
      fail(ErrorKind::kInternal, kj::str(name, " has not said that it watches"));
    }
  }

  kj::Promise<Events> next() override {
    for (;;) {
      auto answer = co_await read();
      if (answer.events_size() > 0) co_return fromMessage(answer);
    }
  }

 private:
  kj::String name;
  kj::Own<grpc::Call> call;

  kj::Promise<pb::WatchResponse> read() {
    auto message = co_await call->read().catch_(
        [this](kj::Exception&& e) -> kj::Promise<kj::Maybe<kj::Array<kj::byte>>> {
          return namedError(name, e);
        });
    pb::WatchResponse answer;
    KJ_IF_MAYBE (bytes, message) {
      grpc::decode("/etcdserverpb.Watch/Watch", *bytes, answer);
    } else {
      fail(ErrorKind::kUnavailable, kj::str(name, " has ended a watch"));
    }
    if (answer.compact_revision() != 0) {
      fail(ErrorKind::kConflict, kj::str(name, ": cannot watch: revisions before ",
                                         answer.compact_revision(), " have been compacted"));
    }
    if (answer.canceled()) {
      fail(ErrorKind::kUnavailable,
           kj::str(name, " has ended a watch: ", toText(answer.cancel_reason())));
    }
    co_return answer;
  }
};

}  // namespace

struct EtcdClient::Impl {
  kj::Timer& timer;
  kj::String name;
  Deadlines deadlines;
  grpc::Client client;

  Impl(kj::Timer& timer, kj::String givenName, kj::String authority, Dial dial, Deadlines deadlines)
      : timer(timer),
        name(kj::mv(givenName)),
        deadlines(deadlines),
        client(timer, kj::str(name), kj::mv(dial),
               {.scheme = "https", .authority = kj::mv(authority), .silence = deadlines.silence}) {}

  // On request, a member without a leader refuses calls that need one at once; otherwise it lets
  // them wait.
  enum Leader { kNeedsNone, kNeedsLeader };
  static kj::ArrayPtr<const grpc::Metadata> metadata(Leader leader) {
    static constexpr grpc::Metadata kHasLeader[] = {{"hasleader"_kj, "true"_kj}};
    if (leader == kNeedsNone) return nullptr;
    return kHasLeader;
  }

  template <typename Response>
  kj::Promise<Response> ask(kj::StringPtr path, const google::protobuf::MessageLite& request,
                            kj::Duration deadline, Leader leader = kNeedsLeader) {
    return kj::evalNow([&]() {
             return grpc::call<Response>(client, path, metadata(leader), deadline, request);
           })
        .catch_([this](kj::Exception&& e) -> kj::Promise<Response> { return namedError(name, e); });
  }

  template <typename Request>
  kj::Promise<kj::Array<Member>> changeMembers(kj::StringPtr path, const Request& request) {
    return ask<pb::MembersResponse>(path, request, deadlines.change)
        .then([](pb::MembersResponse&& answer) { return toMembers(answer.members()); });
  }

  kj::Promise<kj::Own<grpc::Call>> open(kj::StringPtr path, Leader leader) {
    // No deadline for the whole call, but one for the connecting.
    return within(timer, deadlines.call, client.open(path, metadata(leader), nullptr),
                  kj::str("cannot connect to ", name, " within ", deadlines.call))
        .catch_([this](kj::Exception&& e) -> kj::Promise<kj::Own<grpc::Call>> {
          return namedError(name, e);
        });
  }

  [[noreturn]] void noLease(LeaseId id) {
    fail(ErrorKind::kNotFound, kj::str(name, ": lease ", kj::hex(static_cast<uint64_t>(id)),
                                       " has expired or was revoked"));
  }
};

EtcdClient::EtcdClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                       TlsEndpoint& credentials, Endpoint server, Deadlines deadlines)
    : impl(kj::heap<Impl>(timer, kj::str("etcd at ", server.toString()), server.toString(),
                          // A handshake that is slower than a call serves the one after it.
                          dialer(lowLevel, timer, credentials, server, deadlines.change),
                          deadlines)) {}
EtcdClient::EtcdClient(kj::Timer& timer, kj::String name, Dial dial, Deadlines deadlines)
    : impl(kj::heap<Impl>(timer, kj::mv(name), kj::str("localhost"), kj::mv(dial), deadlines)) {}
EtcdClient::~EtcdClient() noexcept(false) = default;

kj::StringPtr EtcdClient::name() const {
  return impl->name;
}

// --- keys ---

kj::Promise<RangeResult> EtcdClient::range(Range request) {
  auto leader = request.serializable ? Impl::kNeedsNone : Impl::kNeedsLeader;
  return impl
      ->ask<pb::RangeResponse>("/etcdserverpb.KV/Range", toMessage(request), impl->deadlines.call,
                               leader)
      .then([](pb::RangeResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<PutResult> EtcdClient::put(Put request) {
  return impl
      ->ask<pb::PutResponse>("/etcdserverpb.KV/Put", toMessage(request), impl->deadlines.call)
      .then([](pb::PutResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<DeleteResult> EtcdClient::remove(Delete request) {
  return impl
      ->ask<pb::DeleteRangeResponse>("/etcdserverpb.KV/DeleteRange", toMessage(request),
                                     impl->deadlines.call)
      .then([](pb::DeleteRangeResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<TxnResult> EtcdClient::txn(Txn request) {
  return impl
      ->ask<pb::TxnResponse>("/etcdserverpb.KV/Txn", toMessage(request), impl->deadlines.call)
      .then([](pb::TxnResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<kj::Own<Watch>> EtcdClient::watch(WatchRequest request) {
  auto beginning = [](Impl& impl, WatchRequest request) -> kj::Promise<kj::Own<Watch>> {
    auto call = co_await impl.open("/etcdserverpb.Watch/Watch", Impl::kNeedsLeader);
    auto watch = kj::heap<WatchImpl>(kj::str(impl.name), kj::mv(call));
    co_await watch->begin(kj::mv(request));
    co_return kj::mv(watch);
  };
  return within(impl->timer, impl->deadlines.call, beginning(*impl, kj::mv(request)),
                kj::str(impl->name, " has not begun a watch within ", impl->deadlines.call));
}

// --- leases ---

kj::Promise<Lease> EtcdClient::grant(kj::Duration ttl) {
  auto sent = impl->timer.now();
  pb::LeaseGrantRequest request;
  request.set_ttl(kj::max(int64_t(1), (ttl + 999 * kj::MILLISECONDS) / kj::SECONDS));
  return impl
      ->ask<pb::LeaseGrantResponse>("/etcdserverpb.Lease/LeaseGrant", request, impl->deadlines.call)
      .then([sent](pb::LeaseGrantResponse&& answer) {
        return Lease{answer.id(), secondsOf(answer.ttl()), sent};
      });
}

kj::Promise<Lease> EtcdClient::keepAlive(LeaseId id) {
  auto sent = impl->timer.now();
  pb::LeaseKeepAliveRequest request;
  request.set_id(id);
  // A stream that carries one beat: its deadline reaches the server, and the answer is this one's.
  return impl
      ->ask<pb::LeaseKeepAliveResponse>("/etcdserverpb.Lease/LeaseKeepAlive", request,
                                        impl->deadlines.call)
      .then([this, id, sent](pb::LeaseKeepAliveResponse&& answer) {
        if (answer.ttl() <= 0) impl->noLease(id);
        return Lease{id, secondsOf(answer.ttl()), sent};
      });
}

kj::Promise<void> EtcdClient::revoke(LeaseId id) {
  pb::LeaseRevokeRequest request;
  request.set_id(id);
  return impl
      ->ask<pb::LeaseRevokeResponse>("/etcdserverpb.Lease/LeaseRevoke", request,
                                     impl->deadlines.call)
      .ignoreResult();
}

// --- members ---

kj::Promise<MemberList> EtcdClient::members(bool linearizable) {
  pb::MemberListRequest request;
  request.set_linearizable(linearizable);
  auto leader = linearizable ? Impl::kNeedsLeader : Impl::kNeedsNone;
  return impl
      ->ask<pb::MembersResponse>("/etcdserverpb.Cluster/MemberList", request, impl->deadlines.call,
                                 leader)
      .then([](pb::MembersResponse&& answer) {
        return MemberList{toMembers(answer.members()), answer.header().member_id()};
      });
}

kj::Promise<MemberAdded> EtcdClient::addMember(kj::Array<kj::String> peerUrls, bool learner) {
  pb::MemberAddRequest request;
  for (auto& url : peerUrls) request.add_peer_urls(url.cStr());
  request.set_is_learner(learner);
  return impl
      ->ask<pb::MemberAddResponse>("/etcdserverpb.Cluster/MemberAdd", request,
                                   impl->deadlines.change)
      .then([](pb::MemberAddResponse&& answer) {
        return MemberAdded{fromMessage(answer.member()), toMembers(answer.members())};
      });
}

kj::Promise<kj::Array<Member>> EtcdClient::removeMember(MemberId id) {
  pb::MemberRemoveRequest request;
  request.set_id(id);
  return impl->changeMembers("/etcdserverpb.Cluster/MemberRemove", request);
}

kj::Promise<kj::Array<Member>> EtcdClient::updateMember(MemberId id,
                                                        kj::Array<kj::String> peerUrls) {
  pb::MemberUpdateRequest request;
  request.set_id(id);
  for (auto& url : peerUrls) request.add_peer_urls(url.cStr());
  return impl->changeMembers("/etcdserverpb.Cluster/MemberUpdate", request);
}

kj::Promise<kj::Array<Member>> EtcdClient::promoteMember(MemberId id) {
  pb::MemberPromoteRequest request;
  request.set_id(id);
  return impl->changeMembers("/etcdserverpb.Cluster/MemberPromote", request);
}

// --- one server ---

kj::Promise<Status> EtcdClient::status() {
  return impl
      ->ask<pb::StatusResponse>("/etcdserverpb.Maintenance/Status", pb::StatusRequest(),
                                impl->deadlines.call, Impl::kNeedsNone)
      .then([](pb::StatusResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<void> EtcdClient::moveLeader(MemberId to) {
  pb::MoveLeaderRequest request;
  request.set_target_id(to);
  return impl
      ->ask<pb::HeaderResponse>("/etcdserverpb.Maintenance/MoveLeader", request,
                                impl->deadlines.change)
      .ignoreResult();
}

kj::Promise<kj::Array<Alarm>> EtcdClient::alarms() {
  pb::AlarmRequest request;
  request.set_action(pb::AlarmRequest::GET);
  return impl
      ->ask<pb::AlarmResponse>("/etcdserverpb.Maintenance/Alarm", request, impl->deadlines.call)
      .then([](pb::AlarmResponse&& answer) { return fromMessage(answer); });
}

kj::Promise<kj::Array<Alarm>> EtcdClient::disarm(Alarm alarm) {
  if (alarm.type == Alarm::Type::kNone) {
    kj::Vector<Alarm> removed;
    auto all = co_await alarms();
    for (auto& a : all) {
      if (alarm.member != 0 && a.member != alarm.member) continue;
      removed.addAll(co_await disarm(a));
    }
    co_return removed.releaseAsArray();
  }
  pb::AlarmRequest request;
  request.set_action(pb::AlarmRequest::DEACTIVATE);
  request.set_member_id(alarm.member);
  request.set_alarm(alarm.type == Alarm::Type::kNoSpace ? pb::ALARM_NOSPACE : pb::ALARM_CORRUPT);
  auto answer = co_await impl->ask<pb::AlarmResponse>("/etcdserverpb.Maintenance/Alarm", request,
                                                      impl->deadlines.call);
  co_return fromMessage(answer);
}

kj::Promise<void> EtcdClient::defragment() {
  return impl
      ->ask<pb::HeaderResponse>("/etcdserverpb.Maintenance/Defragment", pb::DefragmentRequest(),
                                impl->deadlines.heavy, Impl::kNeedsNone)
      .ignoreResult();
}

kj::Promise<uint64_t> EtcdClient::snapshot(SnapshotSink sink) {
  constexpr kj::StringPtr kPath = "/etcdserverpb.Maintenance/Snapshot"_kj;
  auto call = co_await impl->open(kPath, Impl::kNeedsNone);
  auto writing = call->write(grpc::encode(pb::SnapshotRequest()));
  call->endOfMessages();
  uint64_t size = 0, remaining = 0;
  for (;;) {
    auto message =
        co_await within(impl->timer, impl->deadlines.piece, call->read(),
                        kj::str("no piece of a snapshot within ", impl->deadlines.piece))
            .catch_([this](kj::Exception&& e) -> kj::Promise<kj::Maybe<kj::Array<kj::byte>>> {
              return namedError(impl->name, e);
            });
    if (message == nullptr) break;
    pb::SnapshotResponse piece;
    grpc::decode(kPath, KJ_ASSERT_NONNULL(message), piece);
    size += piece.blob().size();
    remaining = piece.remaining_bytes();
    auto bytes = kj::arrayPtr(piece.blob().data(), piece.blob().size()).asBytes();
    if (bytes.size() > 0) co_await sink(bytes, remaining);
  }
  if (remaining > 0) {
    fail(ErrorKind::kUnavailable,
         kj::str(impl->name, " has ended a snapshot ", remaining, " bytes before its end"));
  }
  co_return size;
}

}  // namespace talos::etcd
