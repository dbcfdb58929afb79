# Each recipe is one visible command, so that everything works without just too.

# Where docker is a name for podman, as Fedora has it, it says so. Docker would add an attestation with
# the time of the build, and so another digest each time (buildkit#3421).
builder := 'tool=$(command -v docker || command -v podman || command -v buildah) || { echo "none of docker, podman and buildah is installed: one of them builds the image" >&2; exit 1; }; case "$("$tool" --version)" in Docker*) kind=docker; set -- --build-arg=SOURCE_DATE_EPOCH=0 --provenance=false ;; *) kind=podman; set -- --timestamp=0 ;; esac'
platforms := "linux/amd64,linux/arm64"

# List the recipes
_default:
    @just --list

# What a newcomer runs: no cluster needed
test *ARGS:
    cargo test {{ARGS}}

# A real control plane on loopback, built with Go the first time: everything, or FILTER, or --list
e2e *ARGS:
    cargo test --test e2e -- {{ARGS}}

# A real node in namespaces of its own, as root: everything, or FILTER, or --list
e2e-node *ARGS:
    cargo test --test e2e -- node {{ARGS}}

# What has a long form, in that form: docs/testing.md
e2e-long:
    MUSTER_E2E_LONG=1 cargo test --test e2e -- certs::rotation
    MUSTER_E2E_LONG=1 cargo test --test e2e -- node

# Formatting, lints, licences and sources of dependencies
lint:
    cargo fmt --check
    cargo clippy --all-targets --features e2e -- -D warnings
    cargo clippy --test e2e --features e2e -- -D warnings
    cargo fetch --locked
    cargo deny --offline check bans licenses sources

# Times of a decision, from bytes to bytes
bench *ARGS:
    cargo bench --bench decision -- {{ARGS}}

# Ten thousand pods at one start barrier against two replicas: times, memory, the proposal's own way
bench-barrier:
    cargo build --release --features e2e --bin muster --example waiters
    cargo test --test e2e -- bench-barrier

# What a replica needs, with up to GANGS gangs on a real apiserver: docs/operating.md has a run of it
bench-size GANGS="1000":
    cargo build --release --locked --bin muster --target "$(uname -m)-unknown-linux-musl"
    cargo test --test e2e -- bench-size {{GANGS}}

# New cases for each fuzz target, SECONDS of CPU time each; every run tries others
fuzz SECONDS="60":
    MUSTER_FUZZ_SECONDS={{SECONDS}} MUSTER_FUZZ_SEED="$(date +%s)" cargo test --profile fuzz --test fuzz

# Rewrite the expectations of the fixtures, to be read before they are committed
bless:
    INSTA_UPDATE=always cargo test

# Serve with a development certificate
serve *ARGS:
    cargo run --release -- serve {{ARGS}}

# Write the development CA and leaf
certs:
    cargo run --release -- certs --dir certs

# Build the container image with docker, podman or buildah, whichever is there: the same bytes each time
image TAG="muster:dev":
    {{builder}}; "$tool" build "$@" --tag {{TAG}} .

# Build it for all platforms under one tag, and push that: docs/install.md
image-multi TAG:
    {{builder}}; \
        if [ "$kind" = docker ]; then \
            docker buildx build "$@" --platform {{platforms}} --tag {{TAG}} --push .; \
        else \
            "$tool" build "$@" --platform {{platforms}} --manifest {{TAG}} . \
                && "$tool" manifest push --all {{TAG}} docker://{{TAG}}; \
        fi

# Print the version, which is the tag of a release's image
version:
    @cargo pkgid | sed 's/.*[#@]//'

# List the crates in the program, with versions and licences, in muster.cdx.json
sbom:
    cargo cyclonedx --format json --target x86_64-unknown-linux-musl --override-filename muster.cdx

# Print what installs Muster in a cluster; OVERLAY is a folder of manifests/: docs/install.md
manifest OVERLAY="base":
    kubectl kustomize manifests/{{OVERLAY}}

# The cluster of the tests to look at: a gang waits, a node comes, it starts. Ctrl-C ends it
demo:
    cargo test --test e2e -- demo

# What CI runs
ci:
    bash .ci/run
