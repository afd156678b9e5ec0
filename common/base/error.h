// Errors in the form in which they cross the wire: a kind, a message, a place.
//
// Inside a process an unexpected failure is a kj::Exception. A failure that a caller can act on is
// made by fail() and carries its kind as the prefix of the description ("NotFound: service \"x\"
// ..."), so that it survives Cap'n Proto RPC, which carries the description and the exception type
// but nothing else. The kinds are the gRPC status codes, which users of such systems know.
#pragma once

#include <kj/exception.h>
#include <kj/string.h>

namespace talos {

enum class ErrorKind {
  kInternal,         // a bug, or anything unclassified
  kInvalidArgument,  // the request itself is wrong
  kNotFound,
  kConflict,          // the stored version differs; read again
  kPermissionDenied,  // authenticated, but the role is missing; the message names it
  kUnauthenticated,
  kFailedPrecondition,  // the request is valid, but the machine is not in the state for it
  kUnavailable,         // cannot be reached now; a retry may help
  kDeadlineExceeded,
  kResourceExhausted,
  kUnimplemented,
};

// Returns "NotFound" and so on.
kj::StringPtr nameOf(ErrorKind kind);

// Returns the exception; throw it with kj::throwFatalException() or return it as a rejected
// promise.
kj::Exception error(ErrorKind kind, kj::StringPtr message, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE());

// Throws the exception.
[[noreturn]] void fail(ErrorKind kind, kj::StringPtr message, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE());

// Returns the kind of an exception, local or remote: a disconnect is kUnavailable, an unknown
// description kInternal.
ErrorKind kindOf(const kj::Exception& e);

// Returns the text for a user: the message without the kind, without KJ's "remote exception:"
// prefixes and without a stack; for a failed system call its name, without the source of its
// arguments.
kj::String messageOf(const kj::Exception& e);

}  // namespace talos
