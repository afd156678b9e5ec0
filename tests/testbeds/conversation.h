// Conversations of a hostile peer with a Cap'n Proto server: written by hand, message by message,
// then damaged.
//
// A right conversation makes all calls of an honest client, in one go and without reading an
// answer, because promise pipelining allows this. hostileBytes() changes it, or makes bytes from
// nothing, as the bytes of a fuzzer or a generator say; so the fuzz targets and tests/hostile
// attack in the same way.
#pragma once

#include <capnp/message.h>
#include <capnp/rpc.capnp.h>
#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

namespace talos::testbeds {

class Conversation {
 public:
  // Question 0 is the bootstrap; the calls choose the numbers of their questions.
  Conversation() {
    add([](capnp::rpc::Message::Builder m) { m.initBootstrap().setQuestionId(0); });
  }

  // Adds a whole message.
  template <typename Fill>
  void add(Fill&& fill) {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<capnp::rpc::Message>());
    auto words = capnp::messageToFlatArray(message);
    bytes.addAll(words.asBytes());
  }

  // Calls a method of the bootstrap capability (`target` 0) or of the first pointer in the answer
  // to another question. A sink among the parameters is this side's export with the question's
  // number.
  template <typename Interface, typename Params, typename Fill>
  void call(unsigned question, unsigned target, unsigned method, Fill&& fill) {
    questions.add(question);
    add([&](capnp::rpc::Message::Builder m) {
      auto call = m.initCall();
      call.setQuestionId(question);
      auto answer = call.initTarget().initPromisedAnswer();
      answer.setQuestionId(target);
      if (target != 0) answer.initTransform(1)[0].setGetPointerField(0);
      call.setInterfaceId(capnp::typeId<Interface>());
      call.setMethodId(method);
      auto payload = call.initParams();
      capnp::BuilderCapabilityTable table;
      fill(table.imbue(payload.getContent()).template initAs<Params>());
      auto exports = payload.initCapTable(table.getTable().size());
      for (auto e : exports) e.setSenderHosted(question);
    });
  }
  template <typename Interface, typename Params>
  void call(unsigned question, unsigned target, unsigned method) {
    call<Interface, Params>(question, target, method, [](auto) {});
  }
  // A stand-in for a sink of ours while parameters are filled.
  template <typename Sink>
  static typename Sink::Client sink() {
    return KJ_EXCEPTION(FAILED, "never called");
  }

  // Answers a call that the server makes to one of our sinks.
  void answer(unsigned question) {
    add([&](capnp::rpc::Message::Builder m) {
      auto result = m.initReturn();
      result.setAnswerId(question);
      result.initResults();
    });
  }

  // Adds messages of a level 1 and a three-party client, and then the end of all questions.
  kj::Array<kj::byte> finish() {
    add([](capnp::rpc::Message::Builder m) {
      auto disembargo = m.initDisembargo();
      disembargo.initTarget().initPromisedAnswer().setQuestionId(1);
      disembargo.getContext().setSenderLoopback(1);
    });
    add([&](capnp::rpc::Message::Builder m) {
      auto resolve = m.initResolve();
      resolve.setPromiseId(questions.back());
      resolve.initCap().setSenderHosted(questions.back() + 1);
    });
    add([](capnp::rpc::Message::Builder m) {
      m.initRelease().setId(0);
      m.getRelease().setReferenceCount(1);
    });
    while (!questions.empty()) {
      end(questions.back());
      questions.removeLast();
    }
    end(0);
    add([](capnp::rpc::Message::Builder m) { m.initProvide().setQuestionId(9); });
    return bytes.releaseAsArray();
  }

 private:
  kj::Vector<kj::byte> bytes;
  kj::Vector<unsigned> questions;

  void end(unsigned question) {
    add([&](capnp::rpc::Message::Builder m) {
      m.initFinish().setQuestionId(question);
      m.getFinish().setReleaseResultCaps(true);
    });
  }
};

// Flips bits as the input says, three bytes a flip (place, bits), and cuts at its first two bytes.
inline kj::Array<kj::byte> damaged(kj::ArrayPtr<const kj::byte> right,
                                   kj::ArrayPtr<const kj::byte> input) {
  auto bytes = kj::heapArray(right);
  size_t length = bytes.size();
  if (input.size() >= 2) {
    size_t cut = input[0] | input[1] << 8;
    if (cut < length) length = cut;
    input = input.slice(2, input.size());
  }
  for (; input.size() >= 3; input = input.slice(3, input.size())) {
    bytes[(input[0] | input[1] << 8) % bytes.size()] ^= input[2];
  }
  return kj::heapArray(bytes.slice(0, length));
}

// Returns one well-framed message with this content.
inline kj::Array<kj::byte> framed(kj::ArrayPtr<const kj::byte> input) {
  uint32_t words = input.size() / 8;
  auto bytes = kj::heapArray<kj::byte>(8 + words * 8);
  uint32_t header[2] = {0, words};
  memcpy(bytes.begin(), header, 8);
  memcpy(bytes.begin() + 8, input.begin(), words * 8);
  return bytes;
}

// Reads the input, whose first byte gives the kind of the rest: plain bytes, the content of a
// message, or damage to the right conversation.
inline kj::Array<kj::byte> hostileBytes(kj::ArrayPtr<const kj::byte> right,
                                        kj::ArrayPtr<const kj::byte> input) {
  if (input.size() == 0) return nullptr;
  auto rest = input.slice(1, input.size());
  switch (input[0] % 3) {
    case 0:
      return kj::heapArray(rest);
    case 1:
      return framed(rest);
    default:
      return damaged(right, rest);
  }
}

// The answers of a server to the calls of a conversation, read message by message. A message that
// is cut at the end does not count.
struct Answers {
  unsigned results = 0;
  kj::Vector<kj::String> failures;
};
inline Answers answersIn(kj::ArrayPtr<const kj::byte> bytes) {
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  memcpy(words.begin(), bytes.begin(), words.asBytes().size());
  Answers answers;
  kj::ArrayPtr<const capnp::word> rest = words;
  while (rest.size() > 0 && capnp::expectedSizeInWordsFromPrefix(rest) <= rest.size()) {
    capnp::FlatArrayMessageReader reader(rest);
    auto message = reader.getRoot<capnp::rpc::Message>();
    if (message.isReturn()) {
      if (message.getReturn().isResults()) ++answers.results;
      if (message.getReturn().isException()) {
        answers.failures.add(kj::str(message.getReturn().getException().getReason()));
      }
    }
    rest = kj::arrayPtr(reader.getEnd(), rest.end());
  }
  return answers;
}

}  // namespace talos::testbeds
