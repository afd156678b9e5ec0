@0x94daa358b59c22e5;
# Annotations: one schema defines the wire, the YAML of the machine config, the columns of `talosctl get`, the roles of
# the API and the reference documents. common/yaml/yaml-codec.h, common/wire/resource-registry.h and common/wire/roles.h
# read the annotations by reflection, so that no type needs its own code.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::schema");

annotation name @0xc1c8a1f3f0a3d001 (field, enumerant) :Text;
# Key in YAML and JSON, if it is not the field's own name.

annotation doc @0xc1c8a1f3f0a3d002 (struct, field, enum, enumerant, interface, method) :Text;
# One paragraph for the reference documents and for comments in generated files.

annotation secret @0xc1c8a1f3f0a3d003 (field, param) :Void;
# Never logged or printed in a message. Output has "***" in place of the value, unless its caller requests secrets.

annotation since @0xc1c8a1f3f0a3d004 (field, enumerant) :Text;
# The version of Talos' documents that first had this key.

annotation default @0xc1c8a1f3f0a3d005 (field) :Text;
# The meaning of an absent key, for the reader; the value itself is the field's capnp default.

annotation required @0xc1c8a1f3f0a3d006 (field) :Void;
# An absent key is a problem.

annotation map @0xc1c8a1f3f0a3d007 (field) :Void;
# A List of a struct {key :Text, value :T} that YAML writes as a mapping, in the list's order.

annotation others @0xc1c8a1f3f0a3d019 (field) :Void;
# A $map of raw values for all keys of its struct that no other field has. YAML has these keys beside those of the other
# fields. Its $name is "*".

annotation raw @0xc1c8a1f3f0a3d008 (field) :Void;
# A Text that holds a YAML node of any shape (a Pod, a manifest, a whole document), written as that node.

annotation inline @0xc1c8a1f3f0a3d009 (struct) :Void;
# A struct with one field (or one union) that YAML writes as that field's value, without a key.

annotation base64 @0xc1c8a1f3f0a3d00a (field) :Void;
# A Data that YAML writes in base64 (PEM files in the machine config).

annotation keepEmpty @0xc1c8a1f3f0a3d00b (field) :Void;
# The field is written even with its default value. `get` writes all fields; the config otherwise has only fields with
# other values.

annotation resource @0xc1c8a1f3f0a3d00c (struct) :ResourceType;
# Makes the struct the spec of a resource type.

annotation column @0xc1c8a1f3f0a3d00d (field) :Text;
# A column of `talosctl get`, with this header (printed in upper case), in field order.

annotation allow @0xc1c8a1f3f0a3d00e (method) :Text;
# Least role that may call the method: "os:reader", "os:operator", "os:etcd:backup" or "os:admin";
# "os:reader or os:etcd:backup" is for interfaces that have methods of both. common/wire/roles.h says which role
# includes which. Absent means os:admin.

annotation alias @0xc1c8a1f3f0a3d00f (field, enumerant) :List(Text);
# Other spellings that are read as this key or value. It is always written with its own name.

annotation noun @0xc1c8a1f3f0a3d010 (enum) :Text;
# The noun for a value of the enum in messages: "bonding mode".

annotation octal @0xc1c8a1f3f0a3d011 (field) :Void;
# A number that YAML writes in octal (0o644); any notation is read.

annotation live @0xc1c8a1f3f0a3d012 (field) :Void;
# A key of the machine config whose changes, and all changes below it, take effect without a reboot
# (machined/config/config-change.h).

annotation reboot @0xc1c8a1f3f0a3d017 (field) :Void;
# The opposite, for a field below a $live one: changes of it, and all changes below it, take effect with the next boot.

annotation noEffect @0xc1c8a1f3f0a3d018 (field) :Text;
# A key of the machine config on which nothing acts, nor on anything below it. A config with the key gets a warning with
# this text, which says what to do.

annotation hidden @0xc1c8a1f3f0a3d01a (field) :Void;
# A field that is no key: documents beside the main one set it (common/config/documents/documents.h). It is neither read nor
# written.

annotation maintenance @0xc1c8a1f3f0a3d013 (method) :Void;
# The method is also served by a node without a config, which cannot verify clients: anyone who reaches the port may
# call it. Such a node answers all other methods with Unimplemented.

annotation joining @0xc1c8a1f3f0a3d015 (method) :Void;
# The method may also be called on a node that has no certificate of the CA because trustd has not issued one yet
# (apid/gate/unverified-peers.h). Its answers are not authenticated, and nothing secret is sent to it.

annotation audit @0xc1c8a1f3f0a3d016 (method) :Void;
# The method changes something, or answers with secrets or the content of files: each call is a line of
# `talosctl logs audit` on the node that it was made for.

annotation ifGiven @0xc1c8a1f3f0a3d014 (field) :Void;
# A field that is written only if it is set, because only some kinds of the object have it.

struct ResourceType {
  type @0 :Text;              # Services.v1alpha1.talos.dev
  namespace @1 :Text;         # used when a request names no namespace
  aliases @2 :List(Text);     # besides the aliases that follow from the type's name
  sensitive @3 :Bool;         # only os:admin may read it
}
