// A client of NBD in the same loop as its server.
#pragma once

#include <kj/async-io.h>
#include <kj/encoding.h>

#include <string>

#include "tests/disks/nbd.h"

namespace talos::disk {

class NbdClient {
 public:
  static constexpr uint32_t kSilence = UINT32_MAX;  // instead of an answer

  NbdClient(kj::WaitScope& scope, Export& disk)
      : scope(scope),
        pipe(kj::newTwoWayPipe()),
        serving(serveNbd(*pipe.ends[0],
                         [&disk](kj::StringPtr name) -> kj::Maybe<Export&> {
                           if (name.size() > 0) return nullptr;
                           return disk;
                         })
                    .then([this] { gone = true; }, [this](kj::Exception&&) { gone = true; })
                    .eagerlyEvaluate(nullptr)),
        reading(drain().eagerlyEvaluate(nullptr)) {}

  std::string data;  // of the last read

  void send(kj::StringPtr hex) { write(kj::decodeHex(hex)); }
  void write(kj::ArrayPtr<const kj::byte> bytes) {
    auto writing = pipe.ends[1]->write(bytes.begin(), bytes.size()).eagerlyEvaluate(nullptr);
    writing.poll(scope);
    scope.poll();
  }
  // Takes the next `count` received bytes, in hexadecimal.
  std::string take(size_t count) {
    scope.poll();
    count = std::min(count, heard.size());
    auto bytes = heard.substr(0, count);
    heard.erase(0, count);
    return kj::encodeHex(kj::StringPtr(bytes.data(), bytes.size()).asBytes()).cStr();
  }
  void negotiate() {
    send("00000003");
    send(
        "49484156454f505400000007000000060000000000"
        "00");
    take(18 + 32 + 34 + 20);
  }
  void request(uint16_t command, uint64_t offset, uint32_t length, const std::string& payload = "",
               uint16_t flags = 0) {
    std::string bytes;
    auto add = [&](uint64_t value, int size) {
      while (size-- > 0) bytes += static_cast<char>(value >> (8 * size));
    };
    add(0x25609513, 4), add(flags, 2), add(command, 2), add(++cookie, 8), add(offset, 8);
    add(length, 4);
    bytes += payload;
    write(kj::StringPtr(bytes.data(), bytes.size()).asBytes());
  }
  // Sends a request and returns the error of its answer.
  uint32_t ask(uint16_t command, uint64_t offset, uint32_t length, const std::string& payload = "",
               uint16_t flags = 0) {
    request(command, offset, length, payload, flags);
    auto answer = take(16);
    if (answer.empty()) return kSilence;
    auto number = [&](size_t at, size_t digits) {
      return std::stoull(answer.substr(at, digits), nullptr, 16);
    };
    KJ_REQUIRE(answer.size() == 32 && number(0, 8) == 0x67446698 && number(16, 16) == cookie);
    if (command == 0 && number(8, 8) == 0) {
      data = heard.substr(0, length);
      heard.erase(0, length);
    }
    KJ_REQUIRE(heard.empty(), "more than the answer");
    return static_cast<uint32_t>(number(8, 8));
  }
  bool ended() {
    scope.poll();
    return gone;
  }

 private:
  kj::WaitScope& scope;
  kj::TwoWayPipe pipe;
  bool gone = false;
  std::string heard;
  uint64_t cookie = 0x1122334455667700;
  kj::Promise<void> serving, reading;

  kj::Promise<void> drain() {
    kj::byte buffer[4096];
    for (;;) {
      auto n = co_await pipe.ends[1]->tryRead(buffer, 1, sizeof buffer);
      if (n == 0) co_return;
      heard.append(reinterpret_cast<const char*>(buffer), n);
    }
  }
};

}  // namespace talos::disk
