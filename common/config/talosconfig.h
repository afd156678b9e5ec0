// The client's configuration file: contexts, each with endpoints, nodes and the user's certificate.
//
// A value: read it, change it, write it. The file holds a private key, so it is its user's alone
// (common/user/user-file.h), and a directory is made 0700.
// Everything thrown is InvalidArgument or NotFound with a text for the user; mistakes in the file
// carry its line and column.
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

  // Throws when one of the three is missing.
  Credentials credentials() const;
};

class Talosconfig {
 public:
  Talosconfig() = default;
  // `file` is for messages. Empty text is an empty configuration.
  static Talosconfig parse(kj::StringPtr text, kj::StringPtr file);
  // Of a node, to be kept: one context of this name, the current one, with a CA, a certificate and
  // its key, and no endpoint but the usual 127.0.0.1. Everything else in it is an error.
  static Talosconfig parseReceived(kj::StringPtr text, kj::StringPtr file, kj::StringPtr name);
  // A file that does not exist is an empty configuration.
  static Talosconfig load(kj::StringPtr path);
  kj::String toYaml() const;
  void save(kj::StringPtr path) const;
  // Conflict when there is anything of this name already.
  void saveNew(kj::StringPtr path) const;

  kj::StringPtr currentName() const { return current; }
  const kj::TreeMap<kj::String, Context>& contexts() const { return all; }  // sorted by name

  // The named context, or the current one when the name is empty. Throws when there is none.
  const Context& resolve(kj::StringPtr name = "") const;
  Context& resolve(kj::StringPtr name = "");

  // Makes an existing context the current one.
  void select(kj::StringPtr name);
  // Adds or replaces; the first context becomes the current one.
  void add(kj::StringPtr name, Context context);
  // Removes the context of this name, if there is one.
  void remove(kj::StringPtr name);

  // Takes over the contexts of another file; a name that is taken gets "-1", "-2" and so on. The
  // other's current context becomes the current one.
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
