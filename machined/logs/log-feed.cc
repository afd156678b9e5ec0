#include "machined/logs/log-feed.h"

#include <map>
#include <set>
#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using config::LogStream;

constexpr size_t kFeedChunk = 24u << 10;
constexpr kj::StringPtr kAuditRing = "audit"_kj;

// Passes on the kernel's log.
class KernelFeedSink final : public rpc::LogSink::Server {
 public:
  explicit KernelFeedSink(rpc::LogFeedSink::Client follower) : follower(kj::mv(follower)) {}

 protected:
  // The reader sends up to 40 KiB at once.
  kj::Promise<void> write(WriteContext context) override {
    auto params = context.getParams();
    auto bytes = params.getBytes();
    size_t half = bytes.size() / 2;
    while (half > 0 && bytes[half - 1] != '\n') --half;
    if (bytes.size() > kFeedChunk && half > 0) {
      // Without a position: after a crash between the two parts the first part is sent again.
      co_await send(bytes.slice(0, half), 0);
      co_await send(bytes.slice(half, bytes.size()), params.getNext());
    } else {
      co_await send(bytes, params.getNext());
    }
  }
  kj::Promise<void> missed(MissedContext context) override {
    auto request = follower.missedRequest();
    request.setStream(LogStream::KERNEL);
    request.setCount(context.getParams().getBytes());
    return request.send();
  }

 private:
  rpc::LogFeedSink::Client follower;

  kj::Promise<void> send(kj::ArrayPtr<const kj::byte> bytes, uint64_t next) {
    auto request = follower.linesRequest();
    request.setStream(LogStream::KERNEL);
    request.setBytes(bytes);
    request.setNext(next);
    return request.send();
  }
};

LogStream streamOf(kj::StringPtr ring) {
  return ring == kAuditRing ? LogStream::AUDIT : LogStream::SERVICES;
}

class LogFollower {
 public:
  LogFollower(Logs& logs, Events& events, rpc::LogFeed::FollowParams::Reader params, bool sameBoot)
      : logs(logs), events(events), sink(params.getSink()) {
    for (auto stream : params.getStreams()) streams.insert(stream);
    // Lines that were overwritten before the first follower do not count as missed.
    for (auto& id : logs.ids()) {
      KJ_IF_MAYBE (ring, logs.ring(id)) next[{streamOf(id), id.cStr()}] = ring->oldest();
    }
    next[{LogStream::EVENTS, ""}] = events.lines().oldest();
    if (!sameBoot) return;
    for (auto known : params.getKnown()) {
      next[{known.getStream(), kj::str(known.getId()).cStr()}] = known.getNext();
    }
  }

  bool wants(LogStream stream) const { return streams.count(stream) > 0; }
  uint64_t positionOf(LogStream stream, kj::StringPtr id) { return next[{stream, id.cStr()}]; }

  // Logs take turns: a log with many lines does not delay the others.
  kj::Promise<void> followRings() {
    for (;;) {
      auto changed = logs.changed().exclusiveJoin(events.changed());
      bool more = false;
      if (wants(LogStream::SERVICES) || wants(LogStream::AUDIT)) {
        for (auto& id : logs.ids()) {
          auto stream = streamOf(id);
          if (!wants(stream)) continue;
          KJ_IF_MAYBE (ring, logs.ring(id)) more |= co_await sendSome(stream, id, *ring);
        }
      }
      if (wants(LogStream::EVENTS))
        more |= co_await sendSome(LogStream::EVENTS, "", events.lines());
      if (!more) co_await changed;
    }
  }

 private:
  Logs& logs;
  Events& events;
  rpc::LogFeedSink::Client sink;
  std::set<LogStream> streams;
  std::map<std::pair<LogStream, std::string>, uint64_t> next;

  // Returns true if there may be more. Rings live as long as the store of logs.
  kj::Promise<bool> sendSome(LogStream stream, kj::StringPtr id, const LogRing& ring) {
    auto& cursor = next[{stream, id.cStr()}];
    auto newest = ring.newest();
    if (cursor > newest) cursor = 0;  // the ring was damaged, and was replaced
    if (cursor == newest) co_return false;
    auto oldest = ring.oldest();
    if (cursor < oldest) {
      auto missed = oldest - cursor;
      cursor = oldest;
      auto request = sink.missedRequest();
      request.setStream(stream);
      request.setId(id);
      request.setCount(missed);
      request.setNext(oldest);
      co_await request.send();
      co_return true;
    }
    auto from = ring.lineAt(cursor), until = ring.chunkEnd(from, kFeedChunk, newest);
    cursor = until;
    if (until == from) co_return false;
    auto request = sink.linesRequest();
    request.setStream(stream);
    request.setId(id);
    ring.copy(from, request.initBytes(until - from).asChars());
    request.setNext(until);
    co_await request.send();
    co_return true;
  }
};

class LogFeedServer final : public rpc::LogFeed::Server {
 public:
  LogFeedServer(Logs& logs, Events& events, kj::String bootId, FollowKernel kernel)
      : logs(logs), events(events), bootId(kj::mv(bootId)), kernel(kj::mv(kernel)) {}

  kj::Promise<void> follow(FollowContext context) override {
    if (followers >= kMostLogFollowers) {
      fail(ErrorKind::kResourceExhausted,
           kj::str("there are ", kMostLogFollowers, " followers of the logs already"));
    }
    ++followers;
    KJ_DEFER(--followers);
    auto params = context.getParams();
    LogFollower follower(logs, events, params, kj::StringPtr(params.getBoot()) == bootId);
    auto sink = params.getSink();
    context.releaseParams();
    auto begin = sink.beginRequest();
    begin.setBoot(bootId);
    co_await begin.send().ignoreResult();
    auto rings = follower.followRings();
    if (follower.wants(LogStream::KERNEL)) {
      auto lines = kernel(follower.positionOf(LogStream::KERNEL, ""),
                          kj::heap<KernelFeedSink>(kj::mv(sink)));
      co_await rings.exclusiveJoin(kj::mv(lines));
    } else {
      co_await rings;
    }
  }

 private:
  Logs& logs;
  Events& events;
  kj::String bootId;
  FollowKernel kernel;
  unsigned followers = 0;
};

}  // namespace

rpc::LogFeed::Client serveLogFeed(Logs& logs, Events& events, kj::String bootId,
                                  FollowKernel kernel) {
  return kj::heap<LogFeedServer>(logs, events, kj::mv(bootId), kj::mv(kernel));
}

}  // namespace talos::machined
