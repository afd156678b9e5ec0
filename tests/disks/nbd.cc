#include "tests/disks/nbd.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "tests/disks/volatile-disk.h"

namespace talos::disk {
namespace {

using Bytes = kj::ArrayPtr<const kj::byte>;

// Numbers are big-endian.
template <typename T>
T number(Bytes bytes, size_t at) {
  T value = 0;
  for (auto byte : bytes.slice(at, at + sizeof(T))) value = static_cast<T>(value << 8 | byte);
  return value;
}

class Writer {
 public:
  template <typename T>
  Writer& add(T value) {
    for (size_t i = sizeof(T); i-- > 0;) {
      bytes.add(static_cast<kj::byte>(static_cast<uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }
  Bytes written() const { return bytes; }

 private:
  kj::Vector<kj::byte> bytes;
};

// Negotiation.
constexpr uint64_t kGreeting = 0x4e42444d41474943;     // "NBDMAGIC"
constexpr uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
constexpr uint64_t kOptionReplyMagic = 0x3e889045565a9;
constexpr uint16_t kFixedNewstyle = 1, kNoZeroes = 2;
enum class Option : uint32_t { kAbort = 2, kGo = 7 };
enum class Reply : uint32_t {
  kAck = 1,
  kInfo = 3,
  kUnsupported = 0x80000001,
  kInvalid = 0x80000003,
  kUnknown = 0x80000006,
};
enum class Info : uint16_t { kExport = 0, kBlockSize = 3 };
constexpr uint32_t kLongestOption = 8 << 10;  // a name has 4096 bytes at most
constexpr size_t kOptionSize = 16;
// The export has flags; takes flush, FUA, trim, write zeroes.
constexpr uint16_t kExportFlags = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;

// Requests.
constexpr uint32_t kRequestMagic = 0x25609513, kReplyMagic = 0x67446698;
constexpr size_t kRequestSize = 28;
enum class Command : uint16_t {
  kRead = 0,
  kWrite = 1,
  kDisconnect = 2,
  kFlush = 3,
  kTrim = 4,
  kWriteZeroes = 6,
};
constexpr uint16_t kFua = 1, kNoHole = 2;
enum class Failure : uint32_t { kNone = 0, kIo = 5, kInvalid = 22, kNoSpace = 28 };

struct Request {
  uint16_t flags;
  Command command;
  uint64_t cookie, offset;
  uint32_t length;
};

[[noreturn]] void broken(kj::StringPtr what) {
  fail(ErrorKind::kInvalidArgument, kj::str("the client of a disk broke the protocol: ", what));
}

Request parse(Bytes bytes) {
  if (number<uint32_t>(bytes, 0) != kRequestMagic) broken("not a request");
  return {.flags = number<uint16_t>(bytes, 4),
          .command = static_cast<Command>(number<uint16_t>(bytes, 6)),
          .cookie = number<uint64_t>(bytes, 8),
          .offset = number<uint64_t>(bytes, 16),
          .length = number<uint32_t>(bytes, 24)};
}

// The error of a request that cannot be served.
Failure check(const Request& request, uint64_t size) {
  bool reads = request.command == Command::kRead, writes = request.command == Command::kWrite;
  bool zeroes = request.command == Command::kWriteZeroes, trims = request.command == Command::kTrim;
  // Clients set FUA on commands that write nothing, too.
  uint16_t known = zeroes ? kFua | kNoHole : kFua;
  if ((request.flags & ~known) != 0) return Failure::kInvalid;
  if (request.command == Command::kFlush) return Failure::kNone;
  if (!reads && !writes && !zeroes && !trims) return Failure::kInvalid;
  if (request.offset % kSector != 0 || request.length % kSector != 0) return Failure::kInvalid;
  if (request.offset > size || request.length > size - request.offset) {
    return reads ? Failure::kInvalid : Failure::kNoSpace;
  }
  if (reads && request.length > kMostAtOnce) return Failure::kInvalid;
  return Failure::kNone;
}

// Returns the name in an option that selects an export; nullptr if the option is malformed. The
// information that the client requests after the name is sent in any case.
kj::Maybe<kj::String> exportName(Bytes data) {
  if (data.size() < 6) return nullptr;
  auto length = number<uint32_t>(data, 0);
  if (length > data.size() - 6) return nullptr;
  auto requests = size_t(number<uint16_t>(data, 4 + length));
  if (data.size() - 6 - length != 2 * requests) return nullptr;
  return kj::heapString(data.slice(4, 4 + length).asChars());
}

class Session {
 public:
  Session(kj::AsyncIoStream& client, FindExport find) : client(client), find(kj::mv(find)) {}

  kj::Promise<void> run() {
    if (!co_await negotiate()) co_return;
    kj::byte header[kRequestSize];
    while (co_await client.tryRead(header, kRequestSize, kRequestSize) == kRequestSize) {
      auto request = parse(header);
      if (request.command == Command::kDisconnect) co_return;
      co_await answer(request);
    }
  }

 private:
  kj::AsyncIoStream& client;
  FindExport find;
  kj::Maybe<Export&> selected;

  // Once the negotiation has succeeded.
  Export& served() { return KJ_ASSERT_NONNULL(selected); }

  kj::Promise<void> send(Bytes bytes) { return client.write(bytes.begin(), bytes.size()); }

  // False: the client has left.
  kj::Promise<bool> negotiate() {
    Writer greeting;
    greeting.add(kGreeting).add(kOptionMagic).add(uint16_t(kFixedNewstyle | kNoZeroes));
    co_await send(greeting.written());
    kj::byte header[kOptionSize];
    if (co_await client.tryRead(header, 4, 4) < 4) co_return false;
    auto flags = number<uint32_t>(header, 0);
    if ((flags & ~uint32_t(kFixedNewstyle | kNoZeroes)) != 0 || (flags & kFixedNewstyle) == 0) {
      broken("its flags are unknown");
    }
    for (;;) {
      if (co_await client.tryRead(header, kOptionSize, kOptionSize) < kOptionSize) co_return false;
      if (number<uint64_t>(header, 0) != kOptionMagic) broken("not an option");
      auto length = number<uint32_t>(header, 12);
      if (length > kLongestOption) broken("an option is too long");
      auto data = kj::heapArray<kj::byte>(length);
      if (co_await client.tryRead(data.begin(), length, length) < length) co_return false;
      auto option = static_cast<Option>(number<uint32_t>(header, 8));
      auto reply = Reply::kUnsupported;
      if (option == Option::kGo) reply = select(data);
      if (option == Option::kAbort) reply = Reply::kAck;
      bool goes = option == Option::kGo && reply == Reply::kAck;
      if (goes) co_await describe();
      co_await answer(option, reply, nullptr);
      if (goes) co_return true;
      if (option == Option::kAbort) co_return false;
    }
  }

  Reply select(Bytes data) {
    KJ_IF_MAYBE (name, exportName(data)) {
      selected = find(*name);
      return selected == nullptr ? Reply::kUnknown : Reply::kAck;
    }
    return Reply::kInvalid;
  }

  kj::Promise<void> describe() {
    Writer size, blocks;
    size.add(static_cast<uint16_t>(Info::kExport)).add(served().size()).add(kExportFlags);
    co_await answer(Option::kGo, Reply::kInfo, size.written());
    blocks.add(static_cast<uint16_t>(Info::kBlockSize));
    blocks.add(uint32_t(kSector)).add(uint32_t(4096)).add(kMostAtOnce);
    co_await answer(Option::kGo, Reply::kInfo, blocks.written());
  }

  kj::Promise<void> answer(Option option, Reply reply, Bytes data) {
    Writer header;
    header.add(kOptionReplyMagic).add(static_cast<uint32_t>(option));
    header.add(static_cast<uint32_t>(reply)).add(static_cast<uint32_t>(data.size()));
    co_await send(header.written());
    co_await send(data);
  }

  kj::Promise<void> answer(const Request& request) {
    bool writes = request.command == Command::kWrite, reads = request.command == Command::kRead;
    // A payload that is too long is not skipped: the connection ends.
    if (writes && request.length > kMostAtOnce) broken("a write is too long");
    auto failure = check(request, served().size());
    bool carries = writes || (reads && failure == Failure::kNone);
    auto data = kj::heapArray<kj::byte>(carries ? request.length : 0);
    if (writes) {
      if (co_await client.tryRead(data.begin(), data.size(), data.size()) < data.size()) co_return;
    }
    if (failure == Failure::kNone) failure = co_await perform(request, data);
    Writer header;
    header.add(kReplyMagic).add(static_cast<uint32_t>(failure)).add(request.cookie);
    co_await send(header.written());
    if (reads && failure == Failure::kNone) co_await send(data);
  }

  kj::Promise<Failure> perform(const Request& request, kj::ArrayPtr<kj::byte> data) {
    return kj::evalNow([&] { return start(request, data); })
        .then([] { return Failure::kNone; },
              [](kj::Exception&& e) {
                log::error("request of an NBD client failed", {{"error", messageOf(e)}});
                bool full = kindOf(e) == ErrorKind::kResourceExhausted;
                return full ? Failure::kNoSpace : Failure::kIo;
              });
  }

  kj::Promise<void> start(const Request& request, kj::ArrayPtr<kj::byte> data) {
    bool durable = (request.flags & kFua) != 0;
    switch (request.command) {
      case Command::kRead:
        return served().read(request.offset, data);
      case Command::kWrite:
        return served().write(request.offset, data, durable);
      case Command::kTrim:
      case Command::kWriteZeroes:
        return served().zero(request.offset, request.length, durable);
      case Command::kFlush:
      case Command::kDisconnect:
        break;
    }
    return served().flush();
  }
};

}  // namespace

kj::Promise<void> serveNbd(kj::AsyncIoStream& client, FindExport find) {
  Session session(client, kj::mv(find));
  co_await session.run();
}

}  // namespace talos::disk
