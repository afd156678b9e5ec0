// The client's configuration file: contexts, each with endpoints, nodes and the user's certificate.
//
// A value: a program reads, changes and writes it. The file holds a private key, so only its user
// can read it (common/user/user-file.h), and a directory is made 0700. All exceptions are
// InvalidArgument, NotFound or Conflict with a text for the user; errors about the file have line
// and column.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/tls/pki.h"
#include "common/tls/tls.h"

namespace talos {

struct Context {
  kj::Vector<kj::String> endpoints;  // hosts, without a port
  kj::Vector<kj::String> nodes;
  kj::String ca, certificate;  // PEM; may be empty
  pki::Pem key;

  // Returns the credentials. Throws if one of the three is missing.
  Credentials credentials() const;
};

class Talosconfig {
 public:
  Talosconfig() = default;
  // Parses a text; `file` is for messages. An empty text is an empty configuration.
  static Talosconfig parse(kj::StringPtr text, kj::StringPtr file);
  // Parses the text that a node sent, for keeping: one context of this name, the current one, with
  // a CA, a certificate and its key, and no endpoint but the 127.0.0.1 of earlier releases.
  // Anything else in the text is an error.
  static Talosconfig parseReceived(kj::StringPtr text, kj::StringPtr file, kj::StringPtr name);
  // Reads a file. A file that does not exist is an empty configuration.
  static Talosconfig load(kj::StringPtr path);
  kj::String toYaml() const;
  void save(kj::StringPtr path) const;
  // Throws Conflict if a file of this name already exists.
  void saveNew(kj::StringPtr path) const;

  kj::StringPtr currentName() const { return current; }
  const kj::TreeMap<kj::String, Context>& contexts() const { return all; }  // sorted by name

  // Returns the named context, or the current one if the name is empty. Throws if it does not
  // exist.
  const Context& resolve(kj::StringPtr name = "") const;
  Context& resolve(kj::StringPtr name = "");

  // Makes an existing context the current one.
  void select(kj::StringPtr name);
  // Adds or replaces a context; the first context becomes the current one.
  void add(kj::StringPtr name, Context context);
  // Removes the context of this name, if there is one.
  void remove(kj::StringPtr name);
  // Gives an existing context a name that is not in use; the current context stays the current one.
  // Throws Conflict if the name is in use.
  void rename(kj::StringPtr from, kj::StringPtr to);

  // Adds the contexts of another file; a name that is in use gets "-1", "-2" and so on. The other
  // file's current context becomes the current one.
  struct Rename {
    kj::String from, to;
  };
  kj::Vector<Rename> merge(Talosconfig&& other);

 private:
  kj::String current;
  kj::TreeMap<kj::String, Context> all;

  static Talosconfig read(kj::StringPtr text, kj::StringPtr file, bool unknownKeysAreWarnings);
  kj::String checkName(kj::StringPtr name) const;
};

}  // namespace talos
