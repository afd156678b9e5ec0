#include "common/base/error.h"

#include <ctype.h>
#include <kj/debug.h>
#include <string.h>

namespace talos {
namespace {

struct Name {
  ErrorKind kind;
  kj::StringPtr text;
  kj::Exception::Type
      type;  // how Cap'n Proto classifies it: only this and the description cross the wire
};

constexpr Name kNames[] = {
    {ErrorKind::kInternal, "Internal"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kInvalidArgument, "InvalidArgument"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kNotFound, "NotFound"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kConflict, "Conflict"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kPermissionDenied, "PermissionDenied"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kUnauthenticated, "Unauthenticated"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kFailedPrecondition, "FailedPrecondition"_kj, kj::Exception::Type::FAILED},
    {ErrorKind::kUnavailable, "Unavailable"_kj, kj::Exception::Type::DISCONNECTED},
    {ErrorKind::kDeadlineExceeded, "DeadlineExceeded"_kj, kj::Exception::Type::OVERLOADED},
    {ErrorKind::kResourceExhausted, "ResourceExhausted"_kj, kj::Exception::Type::OVERLOADED},
    {ErrorKind::kUnimplemented, "Unimplemented"_kj, kj::Exception::Type::UNIMPLEMENTED},
};

const Name& entry(ErrorKind kind) {
  for (auto& name : kNames) {
    if (name.kind == kind) return name;
  }
  KJ_UNREACHABLE;
}

// Returns the description without the prefix that KJ's RPC adds to a remote exception.
kj::StringPtr withoutPrefix(kj::StringPtr description) {
  constexpr kj::StringPtr kRemote = "remote exception: "_kj;
  while (description.startsWith(kRemote)) description = description.slice(kRemote.size());
  return description;
}

struct Parsed {
  kj::Maybe<ErrorKind> kind;
  kj::StringPtr message;
};

Parsed parse(kj::StringPtr description) {
  auto text = withoutPrefix(description);
  for (auto& name : kNames) {
    if (text.size() > name.text.size() + 2 && text.startsWith(name.text) &&
        text.slice(name.text.size()).startsWith(": ")) {
      return {name.kind, text.slice(name.text.size() + 2)};
    }
  }
  return {nullptr, text};
}

bool isErrorOfSystem(kj::StringPtr text) {
  constexpr int kErrors = 134;  // of Linux
  for (int number = 1; number < kErrors; ++number) {
    if (text.startsWith(strerrordesc_np(number) ?: "\n")) return true;
  }
  return false;
}

// Returns the end of the name that begins at `at`.
size_t nameEnd(kj::StringPtr text, size_t at) {
  while (at < text.size() && (isalnum(text[at]) || text[at] == '_')) ++at;
  return at;
}

// KJ_SYSCALL describes a failure by the source of the call, which does not help a user: "n =
// ::read(fd, buffer, maxBytes): Connection reset by peer" becomes "read: Connection reset by peer".
kj::Maybe<kj::String> systemCallText(kj::StringPtr text) {
  size_t begin = nameEnd(text, 0);
  begin = begin > 0 && text.slice(begin).startsWith(" = ") ? begin + 3 : 0;
  if (text.slice(begin).startsWith("::")) begin += 2;
  auto open = nameEnd(text, begin);
  if (open == begin || open == text.size() || text[open] != '(') return nullptr;
  if (text.slice(open).startsWith("()")) return nullptr;  // it has no arguments
  for (size_t i = open; i < text.size() && text[i] != '"'; ++i) {
    if (!text.slice(i).startsWith("): ") || !isErrorOfSystem(text.slice(i + 3))) continue;
    return kj::str(text.slice(begin, open), ": ", text.slice(i + 3));
  }
  return nullptr;
}

}  // namespace

kj::StringPtr nameOf(ErrorKind kind) {
  return entry(kind).text;
}

kj::Exception error(ErrorKind kind, kj::StringPtr message, const char* file, int line) {
  auto& name = entry(kind);
  return kj::Exception(name.type, file, line, kj::str(name.text, ": ", message));
}

void fail(ErrorKind kind, kj::StringPtr message, const char* file, int line) {
  kj::throwFatalException(error(kind, message, file, line));
}

ErrorKind kindOf(const kj::Exception& e) {
  auto parsed = parse(e.getDescription());
  KJ_IF_MAYBE (kind, parsed.kind) {
    return *kind;
  }
  switch (e.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return ErrorKind::kUnavailable;
    case kj::Exception::Type::OVERLOADED:
      return ErrorKind::kResourceExhausted;
    case kj::Exception::Type::UNIMPLEMENTED:
      return ErrorKind::kUnimplemented;
    case kj::Exception::Type::FAILED:
      return ErrorKind::kInternal;
  }
  return ErrorKind::kInternal;
}

kj::String messageOf(const kj::Exception& e) {
  auto parsed = parse(e.getDescription());
  if (parsed.message.size() == 0) return kj::str("no message");
  if (parsed.kind == nullptr) {
    KJ_IF_MAYBE (text, systemCallText(parsed.message)) return kj::mv(*text);
  }
  return kj::str(parsed.message);
}

}  // namespace talos
