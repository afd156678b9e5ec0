#include "common/grpc/grpc-frame.h"
#include "common/text/foreign-text.h"

#include <string.h>

namespace talos::grpc {
namespace {

kj::Maybe<unsigned> hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return nullptr;
}

}  // namespace

kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message) {
  auto result = kj::heapArray<kj::byte>(kFrameHeader + message.size());
  result[0] = 0;
  for (int i = 0; i < 4; ++i) result[1 + i] = message.size() >> (24 - 8 * i) & 0xff;
  if (message.size() > 0) memcpy(result.begin() + kFrameHeader, message.begin(), message.size());
  return result;
}

kj::Maybe<kj::String> FrameReader::feed(kj::ArrayPtr<const kj::byte> bytes,
                                        kj::FunctionParam<void(kj::Array<kj::byte>)> message) {
  while (bytes.size() > 0) {
    if (headerSize < kFrameHeader) {
      header[headerSize++] = bytes[0];
      bytes = bytes.slice(1, bytes.size());
      if (headerSize < kFrameHeader) continue;
      if (header[0] != 0) return kj::str("a message is compressed, which is not supported");
      length = size_t(header[1]) << 24 | header[2] << 16 | header[3] << 8 | header[4];
      if (length > limit) {
        return kj::str("a message has ", length, " bytes; at most ", limit, " are accepted");
      }
    }
    auto part = bytes.slice(0, kj::min(bytes.size(), length - body.size()));
    body.addAll(part);
    bytes = bytes.slice(part.size(), bytes.size());
    if (body.size() < length) continue;
    headerSize = 0;
    message(body.releaseAsArray());
  }
  return nullptr;
}

kj::String timeoutText(kj::Duration left) {
  constexpr int64_t kMost = 99'999'999;
  if (left < 1 * kj::MILLISECONDS) left = 1 * kj::MILLISECONDS;
  if (left / kj::MILLISECONDS <= kMost) return kj::str(left / kj::MILLISECONDS, "m");
  return kj::str(kj::min(left / kj::SECONDS, kMost), "S");
}

kj::Maybe<kj::Duration> parseTimeout(kj::StringPtr text) {
  constexpr kj::Duration kLongest = 365 * kj::DAYS;
  if (text.size() < 2 || text.size() > 9) return nullptr;
  int64_t count = 0;
  for (char c : text.slice(0, text.size() - 1)) {
    if (c < '0' || c > '9') return nullptr;
    count = 10 * count + (c - '0');
  }
  kj::Duration unit;
  switch (text[text.size() - 1]) {
    case 'H':
      unit = kj::HOURS;
      break;
    case 'M':
      unit = kj::MINUTES;
      break;
    case 'S':
      unit = kj::SECONDS;
      break;
    case 'm':
      unit = kj::MILLISECONDS;
      break;
    case 'u':
      unit = kj::MICROSECONDS;
      break;
    case 'n':
      unit = kj::NANOSECONDS;
      break;
    default:
      return nullptr;
  }
  if (count > kLongest / unit) return kLongest;
  return count * unit;
}

bool isGrpc(kj::StringPtr contentType) {
  constexpr auto kType = "application/grpc"_kj;
  if (!contentType.startsWith(kType)) return false;
  auto rest = contentType.slice(kType.size());
  return rest.size() == 0 || rest[0] == '+' || rest[0] == ';';
}

kj::String statusHeader(kj::StringPtr text, size_t most) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  auto size = kj::min(text.size(), most);
  // Back to where a character of UTF-8 begins.
  while (size > 0 && size < text.size() && (text[size] & 0xc0) == 0x80) --size;
  kj::Vector<char> out(size + 1);
  for (char c : text.slice(0, size)) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out.add(c);
      continue;
    }
    out.add('%');
    out.add(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.add(kDigits[c & 0xf]);
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

kj::String statusText(kj::StringPtr encoded) {
  kj::Vector<char> out(encoded.size() + 1);
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] == '%' && i + 2 < encoded.size()) {
      auto high = hexDigit(encoded[i + 1]), low = hexDigit(encoded[i + 2]);
      KJ_IF_MAYBE (h, high) {
        KJ_IF_MAYBE (l, low) {
          out.add(static_cast<char>(*h << 4 | *l));
          i += 2;
          continue;
        }
      }
    }
    out.add(encoded[i]);
  }
  return fieldText(out.asPtr());
}

ErrorKind kindOfStatus(int code) {
  switch (code) {
    case 3:   // invalid argument
    case 11:  // out of range
      return ErrorKind::kInvalidArgument;
    case 4:
      return ErrorKind::kDeadlineExceeded;
    case 5:
      return ErrorKind::kNotFound;
    case 6:  // already exists
      return ErrorKind::kConflict;
    case 7:
      return ErrorKind::kPermissionDenied;
    case 8:
      return ErrorKind::kResourceExhausted;
    case 9:
      return ErrorKind::kFailedPrecondition;
    case 12:
      return ErrorKind::kUnimplemented;
    case 1:   // canceled, but not by us
    case 10:  // aborted, because of another call at the same time
    case 14:
      return ErrorKind::kUnavailable;
    case 16:
      return ErrorKind::kUnauthenticated;
    default:
      return ErrorKind::kInternal;
  }
}

int statusOfKind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return 3;
    case ErrorKind::kDeadlineExceeded:
      return 4;
    case ErrorKind::kNotFound:
      return 5;
    case ErrorKind::kPermissionDenied:
      return 7;
    case ErrorKind::kResourceExhausted:
      return 8;
    case ErrorKind::kConflict:
    case ErrorKind::kFailedPrecondition:
      return 9;
    case ErrorKind::kUnimplemented:
      return 12;
    case ErrorKind::kInternal:
      return 13;
    case ErrorKind::kUnavailable:
      return 14;
    case ErrorKind::kUnauthenticated:
      return 16;
  }
  return 13;
}

}  // namespace talos::grpc
