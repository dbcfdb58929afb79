# Build: static, so that the final stage needs nothing but the binary. Compiled by the machine that
# builds, for the platform that is asked for: nothing is emulated.
FROM --platform=$BUILDPLATFORM rust:1.95-alpine AS build
# For any platform: clang compiles ring's C without the headers of the platform, and lld links it
# with the libc that comes with Rust.
ENV CC=clang RUSTFLAGS=-Clinker=ld.lld
RUN apk add --no-cache clang lld musl-dev
# The platform is asked for here and not in a FROM: podman and buildah do not find a stage whose name
# has a variable in it (buildah#6964).
ARG TARGETARCH
RUN case "$TARGETARCH" in \
        amd64) target=x86_64-unknown-linux-musl ;; \
        arm64) target=aarch64-unknown-linux-musl ;; \
        *) echo "no Rust target is known for TARGETARCH=\"$TARGETARCH\"" >&2; exit 1 ;; \
    esac \
    && rustup target add "$target" \
    && printf '[build]\ntarget = "%s"\n' "$target" > "$CARGO_HOME/config.toml" \
    && ln -s "/src/target/$target/release" /release
WORKDIR /src
# Dependencies first: they change less often than the code.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src && touch src/lib.rs && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked && rm -r src
COPY src src
# The binary's time would be a part of the image: built twice, it is the same to the byte.
ARG SOURCE_DATE_EPOCH=0
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin muster \
    && cp /release/muster /muster && touch -d "@$SOURCE_DATE_EPOCH" /muster

# Run: no shell, no package manager, no root.
FROM scratch
COPY --from=build /muster /muster
USER 65532:65532
EXPOSE 8443 8444 8080
ENTRYPOINT ["/muster"]
CMD ["serve", "--log-format", "json"]
