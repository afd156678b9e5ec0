// For tests: ForeignBytes without processes. Requests and answers go through the same messages and
// checks; the work of a process is done in this one, immediately.
#pragma once

#include <capnp/message.h>

#include <map>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/confined/parser/parser-answer.h"

namespace talos::machined {

class DirectForeign : public ForeignBytes {
 public:
  // Delays the reading of larger configs until this resolves.
  kj::Maybe<kj::ForkedPromise<void>> held;
  size_t heldFrom = 64u << 10;
  // Replaces the result of every config.
  kj::Maybe<kj::Exception> broken;
  unsigned configs = 0;
  // A model of a hypervisor; the default refuses every call.
  parse::PortCall port = [](parse::PortRegisters&) {};

  kj::Promise<CheckedConfig> config(kj::ArrayPtr<const char> document, kj::StringPtr file,
                                    ConfigRules rules) override {
    ++configs;
    KJ_IF_MAYBE (e, broken) return kj::cp(*e);
    KJ_IF_MAYBE (h, held) {
      if (document.size() > heldFrom) {
        auto text = kj::heapArray(document);
        return h->addBranch().then([text = kj::mv(text), name = kj::str(file), rules]() {
          return readNow(text, name, rules);
        });
      }
    }
    return readNow(document, file, rules);
  }
  kj::Promise<RedactedConfigs> redact(kj::ArrayPtr<const char> from,
                                      kj::ArrayPtr<const char> to) override {
    Exchange exchange;
    fillRedact(exchange.request, from, to);
    return readRedacted(exchange.answer(), kMostAnswerBytes);
  }
  kj::Promise<kj::Vector<GeneratedFile>> generate(rpc::GenerateRequest::Reader request,
                                                  kj::Maybe<config::Config::Reader> own) override {
    KJ_IF_MAYBE (h, held) co_await h->addBranch();
    Exchange exchange;
    fillGenerate(exchange.request, request, own);
    co_return readGenerated(exchange.answer());
  }
  kj::Promise<kj::Array<char>> text(kj::Array<char> body) override { co_return readBody(body); }
  // The pure reader starts again after each piece that it turns out to need.
  kj::Promise<OnDevice> superblock(kj::StringPtr, ReadDevice read) override {
    std::map<std::pair<uint64_t, size_t>, kj::Array<const kj::byte>> known;
    for (;;) {
      Exchange exchange;
      exchange.request.setSuperblock();
      kj::Maybe<std::pair<uint64_t, size_t>> missing;
      auto answer = exchange.answer([&](uint64_t offset, size_t size) {
        auto found = known.find({offset, size});
        if (found != known.end()) {
          return kj::heapArray<const kj::byte>(found->second.begin(), found->second.size());
        }
        if (missing == nullptr) missing = std::pair(offset, size);
        return kj::Array<const kj::byte>();
      });
      if (missing == nullptr) co_return readSuperblockAnswer(answer);
      auto [offset, size] = KJ_ASSERT_NONNULL(missing);
      known[{offset, size}] = co_await read(offset, size);
    }
  }
  kj::Promise<FoundOnDisk> disk(kj::StringPtr, kj::AutoCloseFd fd) override {
    Exchange exchange;
    auto result = exchange.out.initRoot<rpc::ParseAnswer>();
    parse::answerDisk(fd, result);
    co_return readFoundOnDisk(result.asReader());
  }
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override {
    KJ_FAIL_REQUIRE("tests have names of their own", host);
  }
  kj::Promise<ntp::Verdict> ntp(NtpReply reply) override {
    Exchange exchange;
    fillNtp(exchange.request, reply);
    return readVerdict(exchange.answer());
  }
  kj::Promise<HttpAnswer> http(kj::Own<kj::AsyncIoStream> connection, const HttpSource& place,
                               kj::StringPtr authorities, kj::Date now,
                               HttpProgress& progress) override {
    capnp::MallocMessageBuilder request, last;
    fillHttp(request.initRoot<rpc::ParseRequest>(), place, authorities, now);
    parse::SendAnswer send = [&](kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
      auto answer = last.initRoot<rpc::ParseAnswer>();
      fill(answer);
      if (answer.isProgress()) readProgress(answer.asReader(), progress);
    };
    HttpSource from;
    from.secure = place.secure;
    co_await parse::answerHttp(request.getRoot<rpc::ParseRequest>().asReader().getHttp(),
                               kj::mv(connection), send);
    co_return readHttp(last.getRoot<rpc::ParseAnswer>().asReader(), from);
  }
  kj::Promise<kj::Maybe<HttpSource>> pieces(kj::Own<kj::AsyncIoStream> connection,
                                            const HttpSource& place, kj::StringPtr authorities,
                                            kj::Date now, uint64_t from, HttpProgress& progress,
                                            HttpPieces& to) override {
    capnp::MallocMessageBuilder request, last;
    fillPieces(request.initRoot<rpc::ParseRequest>(), place, authorities, now, from);
    kj::Promise<void> taken = kj::READY_NOW;
    parse::SendAnswer send = [&](kj::FunctionParam<void(rpc::ParseAnswer::Builder)> fill) {
      auto answer = last.initRoot<rpc::ParseAnswer>();
      fill(answer);
      if (!answer.isProgress() && !answer.isBodyStart() && !answer.isPiece()) return;
      // Answers in sequence, as a process that waits for its reader.
      auto copy = kj::heap<capnp::MallocMessageBuilder>();
      copy->setRoot(answer.asReader());
      taken = taken.then([copy = kj::mv(copy), &progress, &to]() mutable {
        return takePiece(copy->getRoot<rpc::ParseAnswer>().asReader(), progress, to);
      });
    };
    HttpSource asked;
    asked.secure = place.secure;
    co_await parse::answerHttp(request.getRoot<rpc::ParseRequest>().asReader().getHttp(),
                               kj::mv(connection), send);
    co_await taken;
    co_return readPiecesEnd(last.getRoot<rpc::ParseAnswer>().asReader(), asked);
  }
  kj::Promise<kj::Array<kj::byte>> kms(kj::Own<kj::AsyncIoStream>, const KmsCall&,
                                       HttpProgress&) override {
    KJ_FAIL_REQUIRE("its tests have a process");
  }
  kj::Promise<kj::Vector<ImagePart>> archive(kj::StringPtr, uint64_t size,
                                             ReadDevice read) override {
    auto whole = kj::heapArray<kj::byte>(size);
    for (uint64_t at = 0; at < size; at += kMostSuperblockBytes) {
      auto part = co_await read(at, kj::min(size - at, kMostSuperblockBytes));
      memcpy(whole.begin() + at, part.begin(), part.size());
    }
    Exchange exchange;
    exchange.request.setArchive(size);
    auto answer = exchange.answer([&](uint64_t offset, size_t count) {
      auto begin = kj::min(offset, whole.size());
      return kj::heapArray<const kj::byte>(
          whole.slice(begin, begin + kj::min(count, whole.size() - begin)).asConst());
    });
    co_return readArchive(answer, size);
  }
  kj::Promise<kj::Vector<ImageSignature>> signatures(
      kj::StringPtr, kj::ArrayPtr<const kj::byte> manifest) override {
    Exchange exchange;
    exchange.request.setSignatures(manifest);
    co_return readSignatures(exchange.answer());
  }
  kj::Promise<kj::String> signedImage(kj::StringPtr,
                                      kj::ArrayPtr<const kj::byte> payload) override {
    Exchange exchange;
    exchange.request.setSignedImage(payload);
    co_return readSignedImage(exchange.answer());
  }
  kj::Promise<kj::String> containerd(kj::ArrayPtr<const char> system,
                                     kj::ArrayPtr<const kj::String> fragments) override {
    Exchange exchange;
    fillContainerd(exchange.request, system, fragments);
    auto text = readText(exchange.answer());
    co_return kj::heapString(text.asPtr());
  }
  kj::Promise<kj::Vector<ExtensionConfig>> extensionConfigs(
      kj::ArrayPtr<const char> document) override {
    Exchange exchange;
    exchange.request.setExtensionConfigs(document.asBytes());
    co_return readExtensionConfigs(exchange.answer());
  }
  kj::Promise<KnownFacts> facts(kj::StringPtr platform,
                                kj::ArrayPtr<const PlatformAnswer> answers) override {
    Exchange exchange;
    fillFacts(exchange.request, platform, answers);
    co_return readFacts(exchange.answer());
  }
  kj::Promise<kj::Maybe<kj::Array<char>>> userData(platforms::Encoding encoding,
                                                   kj::Array<char> content) override {
    Exchange exchange;
    fillUserData(exchange.request, encoding, content);
    co_return readUserData(exchange.answer());
  }
  kj::Promise<kj::String> readyReport(kj::ArrayPtr<const char> goalState) override {
    Exchange exchange;
    exchange.request.setReadyReport(goalState.asBytes());
    co_return readReport(exchange.answer());
  }
  kj::Promise<kj::Maybe<kj::Array<char>>> guestConfig() override {
    Exchange exchange;
    exchange.request.setGuestConfig();
    co_return readUserData(exchange.answerOn(port));
  }
  kj::Promise<KnownFacts> guestFacts() override {
    Exchange exchange;
    exchange.request.setGuestFacts();
    co_return readFacts(exchange.answerOn(port));
  }
  kj::Promise<kj::Array<kj::String>> clearGuestConfig() override {
    Exchange exchange;
    exchange.request.setClearGuestConfig();
    co_return readCleared(exchange.answerOn(port));
  }

 private:
  struct Exchange {
    capnp::MallocMessageBuilder question, out;
    rpc::ParseRequest::Builder request = question.initRoot<rpc::ParseRequest>();

    rpc::ParseAnswer::Reader answer(parse::ReadBytes read = [](uint64_t, size_t) {
      return kj::Array<const kj::byte>();
    }) {
      auto result = out.initRoot<rpc::ParseAnswer>();
      parse::answer(request.asReader(), result, kj::mv(read));
      return result.asReader();
    }
    rpc::ParseAnswer::Reader answerOn(parse::PortCall& port) {
      auto result = out.initRoot<rpc::ParseAnswer>();
      parse::PortCall call = [&port](parse::PortRegisters& registers) { port(registers); };
      parse::answer(
          request.asReader(), result, [](uint64_t, size_t) { return kj::Array<const kj::byte>(); },
          kj::mv(call));
      return result.asReader();
    }
  };

  static CheckedConfig readNow(kj::ArrayPtr<const char> document, kj::StringPtr file,
                               ConfigRules rules) {
    Exchange exchange;
    fillConfig(exchange.request, document, file, rules);
    return readConfig(exchange.answer(), document);
  }
  static kj::Array<char> readBody(kj::ArrayPtr<const char> body) {
    Exchange exchange;
    exchange.request.setText(body.asBytes());
    return readText(exchange.answer());
  }
};

}  // namespace talos::machined
