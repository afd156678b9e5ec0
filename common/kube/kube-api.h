// Wire format of Kubernetes' API: paths of resources, answers that are errors, pages of lists,
// lines of watches. Pure; every reader accepts foreign bytes.
#pragma once

#include <kj/exception.h>
#include <kj/time.h>

#include "common/kube/json.h"

namespace talos::kube {

// A kind of object, as discovery describes it.
struct Resource {
  kj::String group;    // empty: the core group
  kj::String version;  // v1
  kj::String plural;   // name of the kind in paths: daemonsets
  kj::String kind;     // DaemonSet
  bool namespaced = true;

  Resource clone() const;
  // Returns "v1", "apps/v1".
  kj::String apiVersion() const;
};

Resource coreResource(kj::StringPtr plural, kj::StringPtr kind, bool namespaced = true);
Resource appsResource(kj::StringPtr plural, kj::StringPtr kind);
Resource certificateRequests();  // of certificates.k8s.io/v1
Resource roleBindings();         // ClusterRoleBindings

// Group and version from "apps/v1" or "v1"; InvalidArgument for any other text.
struct GroupVersion {
  kj::String group, version;
};
GroupVersion readApiVersion(kj::StringPtr text);

// Returns "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"; without a name, the path of
// all objects; without a namespace, of all namespaces. Every part is encoded.
kj::String pathOf(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name = "",
                  kj::StringPtr subresource = "");
// Returns "/apis/apps/v1", the path that lists the resources of a group and version.
kj::String pathOf(const GroupVersion& groupVersion);
// Appends "?key=value", or "&key=value" after another parameter.
void addQuery(kj::String& path, kj::StringPtr key, kj::StringPtr value);

// Returns the resource of a kind from the answer to pathOf(GroupVersion); nullptr if the group does
// not have it.
kj::Maybe<Resource> resourceOf(const Json& discovery, const GroupVersion& groupVersion,
                               kj::StringPtr kind);

// Returns "policy/v1" from the answer about v1, the API version of evictions; nullptr if the server
// has no evictions.
kj::Maybe<kj::String> evictionVersionOf(const Json& discovery);
// Returns the body of an eviction, without its apiVersion. The uid excludes another pod of this
// name. Without `grace` the pod has its own grace period.
Json evictionOf(kj::StringPtr nameSpace, kj::StringPtr name, kj::StringPtr uid,
                kj::Maybe<kj::Duration> grace);

// Returns the error of an answer with an HTTP status of 400 or more, with the message of its Status
// object if it has one. Kinds: NotFound, Conflict (also: exists already, or too old for a watch),
// PermissionDenied, Unauthenticated, InvalidArgument, ResourceExhausted (429), Unavailable (5xx).
// `doing`: "get nodes/master-1".
kj::Exception errorOf(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body,
                      kj::StringPtr doing);
// A field that an apply would change, but that another manager has set to another value.
struct FieldConflict {
  kj::String manager;  // kubectl-edit; empty if the answer does not name it
  kj::String field;    // .spec.template.spec.containers[name="coredns"].image
};
// Returns the conflicts in an answer with the status 409; empty if it is about something else.
kj::Vector<FieldConflict> conflictsOf(kj::ArrayPtr<const char> body);
// Returns the failed checks from an answer of /readyz or /healthz: "[-]etcd failed: …"; empty if it
// names none. At most kMostFailedChecks bytes.
constexpr size_t kMostFailedChecks = 500;
kj::String failedChecks(kj::ArrayPtr<const char> body);
// Returns true if the answer says that the object to be created exists already.
bool saysAlreadyExists(unsigned status, kj::ArrayPtr<const char> body);
// Reads the seconds of Retry-After, at most a minute; nullptr if the header is not such a number.
kj::Maybe<kj::Duration> readRetryAfter(kj::StringPtr header);

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type;
  Json object;
};
// Reads a line of a watch. Throws Conflict if the version to watch from is too old; other errors
// are those of errorOf().
WatchEvent readWatchEvent(kj::ArrayPtr<const char> line);

// Assembles lines from bytes that arrive in pieces.
class LineAssembler {
 public:
  // `name`: the name of a line in the error.
  explicit LineAssembler(size_t longest, kj::StringPtr name = "a line")
      : longest(longest), name(name) {}
  // Returns the lines that the piece completes, without their line ends and without empty lines.
  // Throws ResourceExhausted if a line is longer than the longest.
  kj::Vector<kj::String> add(kj::ArrayPtr<const char> piece);

 private:
  size_t longest;
  kj::StringPtr name;
  kj::Vector<char> begun;
};

}  // namespace talos::kube
