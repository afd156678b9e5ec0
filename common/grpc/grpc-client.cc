#include "common/grpc/grpc-client.h"

#include <kj/debug.h>

#include "common/base/within.h"
#include "common/grpc/grpc-client-session.h"

namespace talos::grpc {

struct Client::Impl {
  kj::Timer& timer;
  kj::String server;
  Dial dial;
  ConnectionOptions options;
  kj::Maybe<kj::Own<ClientSession>> session;
  // Shared by all calls that wait for a connection. Replaced by the next, never inside of itself.
  kj::Maybe<kj::ForkedPromise<void>> dialling;
  bool pending = false;

  Impl(kj::Timer& timer, kj::String server, Dial dial, ConnectionOptions options)
      : timer(timer), server(kj::mv(server)), dial(kj::mv(dial)), options(kj::mv(options)) {}

  kj::Promise<void> connect() {
    KJ_DEFER(pending = false);
    auto stream = co_await dial();
    session =
        kj::refcounted<ClientSession>(timer, kj::str(server), kj::mv(stream),
                                      ConnectionOptions{.scheme = options.scheme,
                                                        .authority = kj::str(options.authority),
                                                        .silence = options.silence,
                                                        .mostAnswer = options.mostAnswer});
  }

  // Never the promise of one caller: it may be dropped while others wait.
  kj::Promise<void> connected() {
    if (!pending) {
      pending = true;
      dialling = kj::evalLater([this]() { return connect(); }).fork();
    }
    return KJ_ASSERT_NONNULL(dialling).addBranch();
  }

  kj::Promise<kj::Own<ClientSession>> get() {
    for (;;) {
      KJ_IF_MAYBE (s, session) {
        if ((*s)->usable()) co_return kj::addRef(**s);
        session = nullptr;  // its calls keep it until they have ended
      }
      co_await connected();
    }
  }
};

Client::Client(kj::Timer& timer, kj::String server, Dial dial, ConnectionOptions options)
    : impl(kj::heap<Impl>(timer, kj::mv(server), kj::mv(dial), kj::mv(options))) {}
Client::~Client() noexcept(false) = default;

kj::Promise<kj::Own<Call>> Client::open(kj::StringPtr path, kj::ArrayPtr<const Metadata> metadata,
                                        kj::Maybe<kj::Duration> deadline) {
  // The caller's metadata need not live until there is a connection.
  auto ownPath = kj::str(path);
  auto own = KJ_MAP(m, metadata) {
    return std::pair(kj::str(m.name), kj::str(m.value));
  };
  auto started = impl->timer.now();
  auto getting = impl->get();
  KJ_IF_MAYBE (d, deadline) {
    getting = within(
        impl->timer, *d, kj::mv(getting),
        kj::str("cannot connect to ", impl->server, " within ", *d / kj::MILLISECONDS, " ms"));
  }
  auto session = co_await getting;
  auto pairs = KJ_MAP(m, own) {
    return Metadata{m.first, m.second};
  };
  auto left = deadline.map([&](kj::Duration d) { return d - (impl->timer.now() - started); });
  co_return session->open(ownPath, pairs, left);
}

kj::Promise<kj::Array<kj::byte>> Client::unary(kj::StringPtr path,
                                               kj::ArrayPtr<const Metadata> metadata,
                                               kj::Maybe<kj::Duration> deadline,
                                               kj::Array<const kj::byte> message) {
  auto name = kj::str(path);
  auto call = co_await open(path, metadata, deadline);
  auto writing = call->write(kj::mv(message));
  call->endOfMessages();
  co_await writing.catch_([](kj::Exception&&) {});  // read() rejects with the error
  auto answer = co_await call->read();
  if (answer == nullptr) {
    fail(ErrorKind::kInternal, kj::str(impl->server, " has ended ", name, " without an answer"));
  }
  if (co_await call->read() != nullptr) {
    fail(ErrorKind::kInternal, kj::str(impl->server, " has answered ", name, " twice"));
  }
  co_return kj::mv(KJ_ASSERT_NONNULL(answer));
}

kj::Array<kj::byte> encode(const google::protobuf::MessageLite& message) {
  size_t size = message.ByteSizeLong();
  if (size > kMostMessage) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("a message of ", size, " bytes is too long; at most ", kMostMessage));
  }
  auto bytes = kj::heapArray<kj::byte>(size);
  message.SerializeWithCachedSizesToArray(bytes.begin());
  return bytes;
}

void decode(kj::StringPtr path, kj::ArrayPtr<const kj::byte> bytes,
            google::protobuf::MessageLite& into) {
  if (into.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) return;
  fail(ErrorKind::kInternal,
       kj::str("the answer to ", path, " is not a ", into.GetTypeName().c_str()));
}

}  // namespace talos::grpc
