#include "machined/confined/parser/parser-request.h"

#include <kj/async-io.h>
#include <kj/debug.h>

#include "common/memory/zeroize.h"
#include "common/net/dns-resolver.h"
#include "machined/confined/frames/frame-stream.h"
#include "machined/confined/parser/parser-answer.h"

namespace talos::parse {
namespace {

using machined::readerOptions;

class Brain : public machined::BrainSocket {
 public:
  using BrainSocket::BrainSocket;

  void send(kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
    SecretMessage message;
    fill(message.initRoot<rpc::ParseAnswer>());
    BrainSocket::send(message);
  }
  // Reads from the device of the request.
  kj::Array<const kj::byte> read(uint64_t offset, size_t size) {
    send([&](rpc::ParseAnswer::Builder out) {
      auto wanted = out.initWanted();
      wanted.setOffset(offset);
      wanted.setSize(static_cast<uint32_t>(size));
    });
    auto words = receive();
    capnp::FlatArrayMessageReader message(words, readerOptions(words.size()));
    return kj::heapArray<const kj::byte>(message.getRoot<rpc::ParseRequest>().getBytes());
  }
};

void fetch(Brain& brain, rpc::ParseRequest::Http::Reader request, int connection) {
  auto io = kj::setupAsyncIo();
  auto stream = io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(connection));
  SendAnswer send = [&](kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
    brain.send(fill);
  };
  answerHttp(request, kj::mv(stream), send).wait(io.waitScope);
}

void callKeyServer(Brain& brain, rpc::ParseRequest::Kms::Reader request, int connection) {
  auto io = kj::setupAsyncIo();
  auto stream = io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(connection));
  SendAnswer send = [&](kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
    brain.send(fill);
  };
  answerKms(io.provider->getTimer(), request, kj::mv(stream), send).wait(io.waitScope);
}

void lookUp(Brain& brain, kj::StringPtr host) {
  auto io = kj::setupAsyncIo();
  kj::Maybe<kj::Exception> failure;
  kj::Array<kj::String> found;
  try {
    found = resolve(io.unixEventPort, io.provider->getTimer(), host).wait(io.waitScope);
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  brain.send([&](rpc::ParseAnswer::Builder out) { answerLookup(found, failure, out); });
}

}  // namespace

int serve(int socket, int connection) {
  auto failure = kj::runCatchingExceptions([&]() {
    Brain brain(socket);
    auto words = brain.receive();
    capnp::FlatArrayMessageReader message(words, readerOptions(words.size()));
    auto request = message.getRoot<rpc::ParseRequest>();
    if (request.isHttp()) return fetch(brain, request.getHttp(), connection);
    if (request.isKms()) return callKeyServer(brain, request.getKms(), connection);
    if (request.isLookUp()) return lookUp(brain, request.getLookUp());
    brain.send([&](rpc::ParseAnswer::Builder out) {
      if (request.isDisk()) return answerDisk(connection, out);
      answer(request, out, [&](uint64_t offset, size_t size) { return brain.read(offset, size); });
    });
  });
  return failure == nullptr ? 0 : 1;
}

}  // namespace talos::parse
